// How the coordinator starts and crashes, and what its disk does to it meanwhile.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/io/file_util.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/log_recovery.h"
#include "tests/simulation/coordinator_life.h"
#include "tests/simulation/coordinator_node.h"

namespace longhaul::simulation {

void CoordinatorNode::Start() {
  world_->checker.Restarted(*meta_);
  if (world_->mutation == Mutation::kReseed && lives_ > 0) ForgetEverything();
  if (lives_ > 0) world_->memory = world_->memory_later;
  life_ = std::make_unique<Life>(this);
  world_->Trace("coordinator", "starts");
  Enter([this] { life_->performer->Start(); });
  Tick();
}

void CoordinatorNode::StartAnother() {
  if (!up()) return Start();
  world_->Trace("coordinator", "another is started");
  // The first thing that a start does, and --adopt.
  const absl::Status opened = MetaStore::Open(database_).status();
  if (absl::IsUnavailable(opened)) return;
  world_->checker.Violation(
      absl::StrCat("two coordinators may use one data folder: ", opened.ToString()));
}

// The jobs' folders are empty, and the database says that they never began.
void CoordinatorNode::ForgetEverything() {
  disk_ = std::make_unique<MemoryFileSystem>();
  LH_CHECK(CreateDirs(*disk_, JobsFolder(kDataDir)).ok(), "an empty disk takes folders");
  const auto jobs = meta_->ListUnended();
  for (const JobRecord& job : *jobs) {
    LH_CHECK(meta_->Commit({JobUpdate{job.id, JobState::kPending, ""}}).ok(), "the job is there");
  }
}

void CoordinatorNode::Crash() {
  if (!up()) return;
  world_->Trace("coordinator", "crashes");
  life_.reset();
  ++lives_;
  world_->applies = false;
  world_->readable.clear();
  // What still waits to run in that process keeps its stores here, but not there.
  resident_.clear();
  streams_.clear();
  world_->network.BreakAll(kCoordinatorNode);
  if (world_->mutation == Mutation::kStaleDisk && earlier_disk_ != nullptr) {
    disk_ = earlier_disk_->CrashCopy(UnsyncedFate::kDropped);
  } else {
    const UnsyncedFate fate = world_->Chance(0.3)   ? UnsyncedFate::kDropped
                              : world_->Chance(0.3) ? UnsyncedFate::kKept
                                                    : UnsyncedFate::kRandom;
    disk_ = disk_->CrashCopy(fate, world_->random.Below(1u << 30));
  }
  RepairEnds();
  if (database_ != kInMemory) {
    // The file is closed with the process.
    meta_.reset();
    meta_ = *MetaStore::Open(database_);
  }
  world_->loop.After(world_->Between(absl::Milliseconds(100), absl::Seconds(4)),
                     [this] { StartAnother(); });
}

void CoordinatorNode::CrashAndAdopt() {
  Crash();
  meta_ = *MetaStore::Open(kInMemory);
  const absl::StatusOr<Adoption> adoption = AdoptJobs(*disk_, kDataDir, *meta_);
  LH_CHECK(adoption.ok(), "an empty database takes jobs");
  world_->Trace("coordinator",
                absl::StrCat("lost its database, and adopts ", adoption->adopted.size(), " jobs"));
  world_->checker.Adopted(*meta_, *disk_);
}

void CoordinatorNode::CrashWithDamage() {
  Crash();
  const std::string job = world_->damage.Strike(*disk_, *meta_, world_->random);
  if (!job.empty()) world_->Trace("coordinator", absl::StrCat("has a damaged file of ", job));
}

void CoordinatorNode::CrashAndRepair(const std::vector<std::string>& jobs) {
  Crash();
  for (const std::string& job : jobs) {
    world_->Trace("coordinator", absl::StrCat("has whole files of ", job));
    world_->damage.Repair(*disk_, job);
  }
}

void CoordinatorNode::StrikeParts(const PushRequest& push) {
  const auto job = life_->fragments.Find(push.from.job);
  const auto store = job ? job->store() : nullptr;
  if (store == nullptr) return;
  const coordinator::ContributionKey key{
      {push.fragment, push.version}, push.from.pool, push.from.incarnation};
  for (const StoredPart& part : store->contributions().Parts(key)) {
    const LogPosition body = part.body();
    const std::string path =
        JoinPath(JoinPath(JobFolder(kDataDir, push.from.job), "log"), LogFileName(body.file));
    // Another stream of the pool may have repeated the last blocks.
    if (!world_->readable.try_emplace({path, body.offset}, !world_->Chance(0.02)).second) continue;
    if (!world_->Chance(0.03)) continue;
    world_->Trace("coordinator",
                  absl::StrCat("has another byte of ", push.from.pool, "'s fragment ",
                               push.fragment, " version ", push.version));
    ++world_->struck;
    const auto file = disk_->Open(path);
    LH_CHECK(file.ok(), "the log is there");
    const int64_t at = body.offset + static_cast<int64_t>(world_->random.Below(part.body_bytes));
    char byte = 0;
    LH_CHECK((*file)->ReadExactly(at, {&byte, 1}).ok(), "the part is there");
    const char before = byte;
    byte = static_cast<char>(byte ^ (1 << world_->random.Below(8)));
    struck_.push_back({push.from.job, path, at, before, byte, part.sequence});
    LH_CHECK((*file)->WriteAt(at, {&byte, 1}).ok(), "the disk takes it");
  }
}

// Damage to the newest frames of a log looks like what a crash leaves (coordinator/store/FORMAT.md,
// rule 4).
void CoordinatorNode::RepairEnds() {
  const auto open = [&](const StruckByte& struck) {
    return std::any_of(resident_.begin(), resident_.end(),
                       [&](const Resident& resident) { return resident.job == struck.job; });
  };
  const auto closed = std::stable_partition(struck_.begin(), struck_.end(), open);
  const std::vector<StruckByte> ended(closed, struck_.end());
  struck_.erase(closed, struck_.end());
  for (const StruckByte& struck : ended) {
    const std::string folder = JobFolder(kDataDir, struck.job);
    const auto file = disk_->Open(struck.path);
    const auto manifest = ReadJobManifest(*disk_, folder);
    char byte = 0;
    if (!file.ok() || !manifest.ok() || !(*file)->ReadExactly(struck.at, {&byte, 1}).ok() ||
        byte != struck.after)
      continue;
    const auto scan =
        ScanLog(*disk_, ParentOf(struck.path),
                {.salt = manifest->options.log_salt, .read_only = true, .leave_out_parts = true});
    if (!scan.ok() || scan->start.next_sequence > struck.sequence) continue;
    LH_CHECK((*file)->WriteAt(struck.at, {&struck.before, 1}).ok() && (*file)->SyncData().ok(),
             "the disk takes it");
  }
}

}  // namespace longhaul::simulation
