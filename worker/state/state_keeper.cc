#include "worker/state/state_keeper.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

// Of saves that ranks compare. A rank has two of its own life, and of an earlier one.
constexpr size_t kSavesCompared = 4;
// What a rank tells of its folder.
constexpr int64_t kNotKept = 0, kEmpty = 1, kHasFiles = 2;
constexpr int64_t kStepsBetweenMax = 1'000'000;

std::string LayoutDigest(const ModelLayout& layout) {
  std::string text;
  for (const UnitLayout& unit : layout.units) {
    absl::StrAppend(&text, unit.name, " ", unit.elements, "\n");
    for (const TensorLayout& tensor : unit.tensors)
      absl::StrAppend(&text, tensor.name, " ", absl::StrJoin(tensor.shape, ","), "\n");
  }
  return DigestOf(text).Hex();
}

int64_t BytesOf(const InnerStateSlot& slot) {
  return slot.count * static_cast<int64_t>(sizeof(float));
}

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

std::string DescribePhase(const std::vector<NamedValue>& phase) {
  std::vector<std::string> words;
  for (const NamedValue& value : phase) {
    // Not those of what is kept beside.
    if (!absl::StrContains(value.name, '/'))
      words.push_back(absl::StrCat(value.name, " ", value.value));
  }
  return absl::StrJoin(words, ", ");
}

}  // namespace

StateKeeper::StateKeeper(Options options, Replica* replica, const Clock* clock, FileSystem* fs)
    : options_(std::move(options)),
      replica_(replica),
      clock_(clock),
      fs_(fs),
      folder_(options_.folder.empty()
                  ? ""
                  : JobStateFolder(options_.folder, options_.owner.pool, options_.owner.job)) {
  options_.owner.layout = LayoutDigest(replica->layout());
}

StateKeeper::~StateKeeper() { Finish(); }

StateKeeper::Writing StateKeeper::writing() const {
  absl::MutexLock lock(&mutex_);
  return writing_;
}

std::vector<InnerStateSlot> StateKeeper::SlotsOf(absl::Span<const NamedValue> phase) const {
  std::vector<InnerStateSlot> slots = replica_->InnerStateSlots(phase);
  if (beside_.slots) {
    for (const InnerStateSlot& slot : beside_.slots()) slots.push_back(slot);
  }
  return slots;
}

// --- When the ranks begin

absl::Status StateKeeper::Resume(int64_t start_step) {
  looked_ = clock_->Now();
  last_look_ = start_step;
  begun_behind_ = start_step;
  next_ = start_step + 1;
  // Ranks of a replica without state agree on that without a word.
  if (replica_->InnerStatePhase().empty()) return absl::OkStatus();
  SavedStates saved = SavedStates::Scan({.fs = fs_,
                                         .folder = folder_,
                                         .owner = options_.owner,
                                         .rank = replica_->rank(),
                                         .ranks = replica_->ranks()});
  LH_ASSIGN_OR_RETURN(const std::vector<SaveId> saves, AgreeOnSaves(saved));
  if (!keeps_) return absl::OkStatus();
  inherited_ = saved.files();
  TellPlan();
  for (const std::string& problem :
       options_.first_of_node ? saved.problems() : std::vector<std::string>())
    options_.log.Warning(absl::StrCat("unusable inner state: ", problem));
  if (start_step == 0) return absl::OkStatus();
  for (const SaveId& save : saves) {
    LH_ASSIGN_OR_RETURN(const bool taken, TakeUp(saved, save, start_step));
    if (taken) return absl::OkStatus();
  }
  TellZero(saved, start_step);
  return absl::OkStatus();
}

bool StateKeeper::CanUse(const SavedStates& saved, const SaveId& save) const {
  return saved.Covers(save, SlotsOf(saved.PhaseOf(save)));
}

// Each rank tells whether it keeps state, how often, and which saves it could take up. Nodes may
// have been told different paces. All save at the slowest one, so that they gather after the same
// steps.
absl::StatusOr<std::vector<SaveId>> StateKeeper::AgreeOnSaves(const SavedStates& saved) {
  std::vector<SaveId> own;
  for (const SaveId& save : saved.saves()) {
    if (own.size() < kSavesCompared && CanUse(saved, save)) own.push_back(save);
  }
  std::vector<int64_t> told = {folder_.empty()         ? kNotKept
                               : saved.files().empty() ? kEmpty
                                                       : kHasFiles,
                               absl::ToInt64Microseconds(options_.every)};
  for (size_t i = 0; i < kSavesCompared; ++i) {
    told.push_back(i < own.size() ? own[i].step : -1);
    told.push_back(i < own.size() ? std::bit_cast<int64_t>(own[i].life) : 0);
  }
  LH_ASSIGN_OR_RETURN(const std::vector<std::vector<int64_t>> ranks, replica_->AllGather(told));
  keeps_ = true;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<int64_t>& of_rank = ranks[rank];
    something_saved_ |= of_rank[0] == kHasFiles;
    options_.every = std::max(options_.every, absl::Microseconds(of_rank[1]));
    if (of_rank[0] == kNotKept) {
      if (keeps_ && !folder_.empty()) {
        options_.log.Warning(
            absl::StrCat("keeps no inner state: rank ", rank, " of this pool has no --state-dir"));
      }
      keeps_ = false;
    }
    std::erase_if(own, [&](const SaveId& save) {
      for (size_t i = 2; i < of_rank.size(); i += 2) {
        if (of_rank[i] == save.step && std::bit_cast<uint64_t>(of_rank[i + 1]) == save.life)
          return false;
      }
      return true;
    });
  }
  return own;
}

// Reads and verifies, then the ranks compare; false if it cannot be used on all of them.
absl::StatusOr<bool> StateKeeper::TakeUp(const SavedStates& saved, const SaveId& save,
                                         int64_t start_step) {
  const int64_t age = start_step - save.step;
  if (std::abs(age) > options_.age_max) {
    problem_ =
        absl::StrFormat("that of step %d is more than %d steps away", save.step, options_.age_max);
    return false;
  }
  const std::vector<NamedValue> phase = saved.PhaseOf(save);
  const std::vector<InnerStateSlot> slots = SlotsOf(phase);
  absl::StatusOr<InnerState> state = saved.Load(save, slots);
  if (!state.ok()) {
    options_.log.Warning(absl::StrCat("unusable inner state: ", state.status().message()));
  }
  LH_ASSIGN_OR_RETURN(const auto ranks, replica_->AllGather({state.ok() ? 1 : 0}));
  for (const std::vector<int64_t>& rank : ranks) {
    if (rank[0] != 0) continue;
    problem_ = absl::StrFormat("that of step %d is damaged", save.step);
    return false;
  }
  LH_RETURN_IF_ERROR(replica_->PutInnerState(*state));
  if (beside_.put) LH_RETURN_IF_ERROR(beside_.put(*state));
  report_.taken_up_step = report_.saved_step = save.step;
  if (replica_->rank() == 0) {
    options_.log.Info(
        absl::StrFormat("resumes from its inner state of step %d and starts after step %d (%s)",
                        save.step, start_step, DescribePhase(phase)));
    TellChangedData(phase);
  }
  if (options_.first_of_node) TellLeftOut(save, slots, *state);
  // Its memory is that of the copies to come.
  copy_ = *std::move(state);
  return true;
}

void StateKeeper::TellPlan() const {
  if (replica_->rank() != 0) return;
  int64_t bytes = 0;
  for (const InnerStateSlot& slot : SlotsOf(replica_->InnerStatePhase())) bytes += BytesOf(slot);
  options_.log.Info(absl::StrFormat(
      "keeps its inner state in %s every %s: %s a rank, as much of memory, at most three times as "
      "much of disk",
      folder_, absl::FormatDuration(options_.every), Megabytes(bytes)));
}

// Few changed tokens go unnoticed.
void StateKeeper::TellChangedData(const std::vector<NamedValue>& saved) const {
  const std::vector<NamedValue> phase = replica_->InnerStatePhase();
  for (const NamedValue& tokens : phase) {
    absl::string_view source = tokens.name;
    if (!absl::ConsumePrefix(&source, kDataTokensPrefix)) continue;
    const std::string sample = absl::StrCat(kDataSamplePrefix, source);
    const double before = PhaseValue(saved, tokens.name), sampled = PhaseValue(saved, sample);
    // 0: an earlier version has saved it.
    if (before != 0 && before != tokens.value) {
      options_.log.Warning(absl::StrFormat(
          "its data has changed since it was saved: source %s had %.0f tokens and has %.0f. "
          "The order of examples is another one: some may be seen twice, and held-out data may "
          "have been trained on",
          source, before, tokens.value));
    } else if (sampled != 0 && sampled != PhaseValue(phase, sample)) {
      options_.log.Warning(absl::StrFormat(
          "its data has changed since it was saved: source %s has as many tokens as before, but "
          "others, or in another order: some may be seen twice, and held-out data may have been "
          "trained on",
          source));
    }
  }
}

void StateKeeper::TellLeftOut(const SaveId& save, absl::Span<const InnerStateSlot> slots,
                              const InnerState& state) const {
  std::set<absl::string_view> kinds;
  for (const InnerStateSlot& slot : slots) {
    const bool here =
        absl::c_any_of(state.parts, [&](const InnerStatePart& part) { return part.slot == slot; });
    if (slot.count > 0 && !here) kinds.insert(NameOf(slot.kind));
  }
  if (kinds.empty()) return;
  options_.log.Warning(absl::StrFormat(
      "its inner state of step %d is loaded without %s, which is incomplete: that error feedback "
      "starts from zero",
      save.step, absl::StrJoin(kinds, ", ")));
}

std::string StateKeeper::DescribeNewest(const SavedStates& saved) const {
  const std::vector<SaveId> saves = saved.saves();
  if (saves.empty()) return "";
  const SavedStates::Writers writers = saved.WritersOf(saves.front());
  std::string text = absl::StrFormat(
      "; this node has of step %d the files of rank %s (the pool had %d ranks, it has %d)",
      saves.front().step, absl::StrJoin(writers.ranks, ", "), writers.of, replica_->ranks());
  if (writers.of == replica_->ranks() && !absl::c_linear_search(writers.ranks, replica_->rank()))
    absl::StrAppend(&text,
                    "; give each node its number again (--node), since it uses its own files");
  return text;
}

// A pool that joins a job late has lost nothing.
void StateKeeper::TellZero(const SavedStates& saved, int64_t start_step) {
  const bool loss = something_saved_;
  if (loss) ++report_.losses;
  // Each node has files of its own.
  if (replica_->rank() != 0 && !(loss && options_.first_of_node)) return;
  if (problem_.empty())
    problem_ =
        loss ? "no save is complete on every rank of the pool" : "none was saved on this machine";
  options_.log.Log(
      loss ? LogLevel::kWarning : LogLevel::kInfo,
      absl::StrFormat("its inner optimizer starts from zero after step %d: inner state: %s%s",
                      start_step, problem_, loss ? DescribeNewest(saved) : ""));
}

// --- While they train

absl::Status StateKeeper::AfterStep(int64_t step, bool last) {
  if (!keeps_ || (step < next_ && !last)) return absl::OkStatus();
  // To settle the ranks at other steps would make what they train depend on the clock. No step
  // follows the last one.
  if (last) LH_RETURN_IF_ERROR(replica_->Settle().status());
  if (!replica_->settled()) return absl::OkStatus();
  if (last) Finish();
  const Writing now = writing();
  const absl::Duration passed = clock_->Now() - looked_;
  const int64_t microseconds = std::max<int64_t>(
      1, absl::ToInt64Microseconds(passed) / std::max<int64_t>(1, step - last_look_));
  LH_ASSIGN_OR_RETURN(const auto ranks, replica_->AllGather({now.busy ? 1 : 0, now.durable_step,
                                                             now.failures, microseconds}));
  bool busy = false;
  int64_t slowest = 1, whole = now.durable_step;
  for (const std::vector<int64_t>& rank : ranks) {
    busy |= rank[0] != 0;
    if (rank[1] != now.durable_step) whole = 0;
    report_.failures = std::max(report_.failures, rank[2]);
    slowest = std::max(slowest, rank[3]);
  }
  if (whole > 0) report_.saved_step = whole_step_ = whole;
  looked_ = clock_->Now();
  last_look_ = step;
  next_ = step + std::clamp<int64_t>(absl::ToInt64Microseconds(options_.every) / slowest, 1,
                                     kStepsBetweenMax);
  // After the first step the pace is known, and there is nothing worth a file.
  const bool first = !std::exchange(paced_, true);
  if (first && !last) return absl::OkStatus();
  if (!busy) return Save(step, /*alone=*/false);
  if (now.busy && !std::exchange(told_pace_, true)) {
    options_.log.Warning(absl::StrCat("writing the inner state takes longer than ",
                                      absl::FormatDuration(options_.every),
                                      ": it is saved less often"));
  }
  return absl::OkStatus();
}

void StateKeeper::SaveAlone(int64_t step) {
  if (!keeps_ || step == taken_step_ || step == begun_behind_) return;
  if (const absl::Status saved = Save(step, /*alone=*/true); !saved.ok()) {
    options_.log.Warning(
        absl::StrCat("its inner state of step ", step, " is not saved: ", saved.message()));
  }
}

absl::Status StateKeeper::Save(int64_t step, bool alone) {
  Finish();
  LH_RETURN_IF_ERROR(replica_->TakeInnerState(copy_, alone));
  taken_step_ = step;
  if (beside_.take) LH_RETURN_IF_ERROR(beside_.take(copy_.parts.size(), copy_));
  {
    absl::MutexLock lock(&mutex_);
    writing_.busy = true;
  }
  writer_ = std::jthread([this, step, whole = whole_step_] { Write(step, whole); });
  return absl::OkStatus();
}

void StateKeeper::Write(int64_t step, int64_t whole_step) {
  absl::Status written;
  {
    absl::MutexLock files(&files_mutex_);
    if (!forgotten_) {
      RemoveOld(step, whole_step);
      written = WriteFile(step);
      if (written.ok()) own_steps_.push_back(step);
    }
  }
  if (!written.ok()) {
    options_.log.Warning(
        absl::StrCat("its inner state of step ", step, " is not saved: ", written.message()));
  }
  absl::MutexLock lock(&mutex_);
  writing_.busy = false;
  if (written.ok()) {
    writing_.durable_step = step;
  } else {
    ++writing_.failures;
  }
}

absl::Status StateKeeper::WriteFile(int64_t step) const {
  const absl::Time begin = SteadyTime();
  const StateTag tag{.owner = options_.owner,
                     .life = options_.life,
                     .step = step,
                     .rank = replica_->rank(),
                     .ranks = replica_->ranks(),
                     .phase = copy_.phase};
  const std::string name = StateFileName{step, tag.rank, tag.ranks}.Text();
  LH_RETURN_IF_ERROR(CreateDirs(*fs_, folder_));
  LH_RETURN_IF_ERROR(WriteStateFile(fs_, JoinPath(folder_, name), tag, copy_.parts));
  int64_t bytes = 0;
  for (const InnerStatePart& part : copy_.parts) bytes += BytesOf(part.slot);
  const absl::Duration took = std::max(SteadyTime() - begin, absl::Microseconds(1));
  options_.log.Debug(absl::StrFormat(
      "saved its inner state of step %d: %s in %s, %.0f MB/s", step, Megabytes(bytes),
      absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(1))),
      static_cast<double>(bytes) / 1e6 / absl::ToDoubleSeconds(took)));
  return absl::OkStatus();
}

// Keeps this rank's newest save, and the newest that all ranks have; of earlier starts everything
// until there is such a one of this start.
void StateKeeper::RemoveOld(int64_t step, int64_t whole_step) {
  std::vector<std::string> names;
  if (own_steps_.size() > 1) {
    std::erase_if(own_steps_, [&, newest = own_steps_.back()](int64_t saved) {
      if (saved == whole_step || saved == newest) return false;
      names.push_back(StateFileName{saved, replica_->rank(), replica_->ranks()}.Text());
      return true;
    });
  }
  if (whole_step > 0) {
    for (const std::string& name : std::exchange(inherited_, {})) {
      if (IsInherited(name, step)) names.push_back(name);
    }
  }
  if (const absl::Status removed = RemoveStateFiles(*fs_, folder_, names); !removed.ok())
    options_.log.Warning(absl::StrCat("old inner state is not removed: ", removed.message()));
}

// Whether this rank is to remove a file that was there when the ranks began. Another rank may have
// replaced it since, or be about to: all of them save after the same steps.
bool StateKeeper::IsInherited(absl::string_view name, int64_t step) const {
  const std::string path = JoinPath(folder_, name);
  absl::ConsumeSuffix(&name, ".tmp");
  const std::optional<StateFileName> parsed = StateFileName::Parse(name);
  if (!parsed.has_value() || parsed->step == step ||
      absl::c_linear_search(own_steps_, parsed->step))
    return false;
  const bool own = parsed->rank == replica_->rank() && parsed->ranks == replica_->ranks();
  if (!own && !options_.first_of_node) return false;
  const absl::StatusOr<StateFile> file = StateFile::Open(path);
  return !file.ok() || file->tag().life != options_.life;
}

// --- At the end

void StateKeeper::Finish() {
  if (writer_.joinable()) writer_.join();
}

void StateKeeper::Forget() {
  if (folder_.empty()) return;
  absl::MutexLock files(&files_mutex_);
  forgotten_ = true;
  const auto names = fs_->List(folder_);
  if (!names.ok()) return;
  std::vector<std::string> removed;
  for (const std::string& name : *names) {
    const std::optional<StateFileName> parsed = StateFileName::Parse(name);
    if (!IsStateFile(name)) continue;
    // Others of this node may still write theirs, and remove them themselves.
    const bool of_rank = parsed.has_value() && parsed->ranks == replica_->ranks();
    if (of_rank ? parsed->rank == replica_->rank() : options_.first_of_node)
      removed.push_back(name);
  }
  const absl::Status status = RemoveStateFiles(*fs_, folder_, removed);
  if (!status.ok())
    options_.log.Warning(absl::StrCat("inner state is not removed: ", status.message()));
  // The last one of the node does it.
  (void)fs_->Remove(folder_);
}

}  // namespace longhaul
