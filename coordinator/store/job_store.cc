#include "coordinator/store/job_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/plan/outer_state.h"
#include "coordinator/outer/measure_tile.h"
#include "coordinator/store/damaged_part.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/job_state_file.h"
#include "coordinator/store/part_check.h"

namespace longhaul {

JobStore::JobStore(FileSystem* fs, std::string dir, JobManifest manifest, OuterRules rules,
                   int apply_threads)
    : fs_(fs),
      dir_(std::move(dir)),
      manifest_(std::move(manifest)),
      rules_(std::move(rules)),
      apply_threads_(apply_threads) {
  for (const int64_t elements : options().fragment_elements) {
    fragments_.push_back(std::make_unique<Fragment>(elements));
    fragments_.back()->committed.round.version = -1;
  }
}

JobStore::~JobStore() = default;

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Make(FileSystem* fs, const std::string& dir,
                                                         const JobManifest& manifest,
                                                         int apply_threads) {
  LH_ASSIGN_OR_RETURN(OuterRules rules, MakeOuterRules(manifest.options));
  return absl::WrapUnique(new JobStore(fs, dir, manifest, std::move(rules), apply_threads));
}

namespace {

absl::Status RemoveJobFolder(FileSystem& fs, const std::string& dir) {
  for (const std::string& of_folders : {CheckpointFolder(dir), TrackFolder(dir)}) {
    LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(fs, of_folders));
    for (const std::string& name : names)
      LH_RETURN_IF_ERROR(RemoveFolder(fs, JoinPath(of_folders, name)));
  }
  for (const std::string& folder :
       {LogFolder(dir), RemovedLogFolder(dir), SnapshotFolder(dir), CheckpointFolder(dir),
        TrackFolder(dir), TokenizerFolder(dir), NewTokenizerFolder(dir), dir}) {
    LH_RETURN_IF_ERROR(RemoveFolder(fs, folder));
  }
  return absl::OkStatus();
}

// OK if there is no folder or an empty one. ALREADY_EXISTS: there is a store. DATA_LOSS: there are
// files, but no manifest.
absl::Status CheckNothingIsThere(FileSystem& fs, const std::string& dir) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(fs, dir));
  if (names.empty()) return absl::OkStatus();
  const absl::Status found = ReadJobManifest(fs, dir).status();
  if (!absl::IsNotFound(found)) {
    return absl::AlreadyExistsError(absl::StrCat("there is a job in ", dir));
  }
  return absl::DataLossError(
      absl::StrCat(ManifestPath(dir), " is missing, though there is ", names.front()));
}

}  // namespace

absl::Status RemoveJobStore(FileSystem& fs, const std::string& dir) {
  // A full disk must not keep a job's files from being removed.
  (void)WriteJobState(fs, dir, {.state = JobState::kCancelled, .deleted = true});
  for (const std::string& folder : {dir, absl::StrCat(dir, ".tmp")})
    LH_RETURN_IF_ERROR(RemoveJobFolder(fs, folder));
  return fs.SyncDir(ParentOf(dir));
}

int64_t JobStoreBytes(const JobStoreOptions& options) {
  return plan::OuterStateBytes(options.fragment_elements, options.down);
}

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Create(FileSystem* fs, const std::string& dir,
                                                           const JobManifest& manifest,
                                                           int apply_threads) {
  const JobStoreOptions& options = manifest.options;
  LH_RETURN_IF_ERROR(CheckOptions(options));
  LH_RETURN_IF_ERROR(CheckNothingIsThere(*fs, dir));
  LH_ASSIGN_OR_RETURN(std::unique_ptr<JobStore> store, Make(fs, dir, manifest, apply_threads));
  const std::string above = ParentOf(dir), temporary = absl::StrCat(dir, ".tmp");
  std::string begun = temporary;
  const auto build = [&]() -> absl::StatusOr<SpareFile> {
    LH_RETURN_IF_ERROR(RemoveJobFolder(*fs, temporary));
    for (const std::string& folder :
         {LogFolder(temporary), SnapshotFolder(temporary), CheckpointFolder(temporary)}) {
      LH_RETURN_IF_ERROR(CreateDirs(*fs, folder));
    }
    LH_ASSIGN_OR_RETURN(SpareFile first, MakeLogFile(*fs, LogFolder(temporary), 1,
                                                     options.log_file_bytes, options.log_salt));
    LH_RETURN_IF_ERROR(WriteJobManifest(*fs, temporary, manifest));
    LH_RETURN_IF_ERROR(fs->SyncDir(temporary));
    LH_RETURN_IF_ERROR(fs->Rename(temporary, dir));
    begun = dir;
    LH_RETURN_IF_ERROR(fs->SyncDir(above));
    LH_ASSIGN_OR_RETURN(first.file, fs->Open(JoinPath(LogFolder(dir), LogFileName(1))));
    return first;
  };
  absl::StatusOr<SpareFile> first = build();
  if (!first.ok()) {
    // Nobody knows of the store yet, so this only gives the space back.
    (void)RemoveJobFolder(*fs, begun);
    return absl::Status(first.status().code(), first.status().message());
  }
  store->log_ = std::make_unique<Log>(fs, LogFolder(dir),
                                      LogFileOptions{options.log_file_bytes, options.log_salt},
                                      LogStart{.spare = *std::move(first), .next_file = 2});
  return store;
}

absl::StatusOr<JobStore::Fragment*> JobStore::FindFragment(int fragment) const {
  if (fragment >= 0 && fragment < static_cast<int>(fragments_.size())) {
    return fragments_[fragment].get();
  }
  return absl::NotFoundError(absl::StrCat("fragment ", fragment, " of ", fragments_.size()));
}

absl::StatusOr<StoredPart> JobStore::AppendPart(const PartInfo& part, Log::Pieces payload) {
  LH_RETURN_IF_ERROR(log_->status());
  const RoundId& round = part.round;
  LH_ASSIGN_OR_RETURN(const int64_t version, Version(round.fragment));
  if (round.version != version + 1) {
    return absl::FailedPreconditionError(absl::StrCat("fragment ", round.fragment,
                                                      " is at version ", version, "; a part makes ",
                                                      version + 1, ", not ", round.version));
  }
  const bool seed = round.kind == RoundKind::kSeed;
  if (seed != (round.version == 0) || round.kind == RoundKind::kSkipped) {
    return absl::InvalidArgumentError(absl::StrCat("no round of kind ", RoundKindName(round.kind),
                                                   " makes version ", round.version));
  }
  if (seed && part.codec != CodecKind::kFp32) {
    return absl::InvalidArgumentError("a seed is coded fp32");
  }
  int64_t payload_bytes = 0;
  for (const absl::Span<const uint8_t> piece : payload) payload_bytes += piece.size();
  LH_RETURN_IF_ERROR(CheckPart(part, payload_bytes, options().fragment_elements[round.fragment]));
  const std::string record = EncodePart(part);
  LH_ASSIGN_OR_RETURN(const AppendedFrame frame, log_->Append(FrameType::kPart, record, payload));
  const auto head_bytes = static_cast<int64_t>(record.size());
  return StoredPart{part,
                    {frame.body.file, frame.body.offset + head_bytes},
                    frame.body_digest,
                    frame.sequence,
                    head_bytes,
                    head_bytes + payload_bytes};
}

std::vector<StoredPart> JobStore::TakePending() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(pending_, {});
}

namespace {

// How many bytes the result of the round adds to the commit's record: a digest, three norms and two
// numbers.
constexpr int64_t kResultBytesMax = 128;

// Whether such a round has a downlink.
bool IsCoded(RoundKind kind) { return kind == RoundKind::kOuter || kind == RoundKind::kFinal; }

absl::Status CheckRound(const RoundInput& input, int64_t version) {
  const RoundId& round = input.round;
  if (round.version != version + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "fragment ", round.fragment, " is at version ", version, "; cannot make ", round.version));
  }
  const size_t count = input.contributions.size();
  const bool seed = round.kind == RoundKind::kSeed;
  const bool right_count = seed                                ? count == 1
                           : round.kind == RoundKind::kSkipped ? count == 0
                                                               : count >= 1;
  if (seed == (round.version == 0) && right_count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a round of kind ", RoundKindName(round.kind),
                                                 " cannot make version ", round.version, " from ",
                                                 count, " contributions"));
}

absl::Status CheckParts(const RoundInput& input) {
  for (const Contribution& contribution : input.contributions) {
    for (const StoredPart& part : contribution.parts) {
      if (part.info.round != input.round) {
        return absl::InvalidArgumentError(absl::StrCat(
            "pool ", contribution.pool, ": frame ", part.sequence, " is not a part of this round"));
      }
    }
  }
  return absl::OkStatus();
}

// Fills in everything of the commit that is known before the round is applied.
LoggedCommit DescribeRound(const RoundInput& input, const Digest128& previous) {
  LoggedCommit commit;
  commit.record.round = input.round;
  commit.record.evaluator = input.evaluator;
  commit.record.due = input.due;
  commit.record.outer = input.outer;
  commit.arithmetic = kArithmeticVersion;
  commit.previous = previous;
  for (const Contribution& contribution : input.contributions) {
    commit.record.pools.push_back(contribution.pool);
    commit.record.incarnations.push_back(contribution.parts.front().info.incarnation);
    commit.weights.push_back(contribution.weight);
    std::vector<LoggedCommit::Input>& inputs = commit.inputs.emplace_back();
    for (const StoredPart& part : contribution.parts) {
      inputs.push_back({part.sequence, part.body_digest});
    }
  }
  return commit;
}

}  // namespace

absl::StatusOr<std::vector<OuterMeasure>> JobStore::Measure(const RoundInput& input) {
  LH_RETURN_IF_ERROR(log_->status());
  const int fragment = input.round.fragment;
  LH_ASSIGN_OR_RETURN(const int64_t version, Version(fragment));
  LH_RETURN_IF_ERROR(CheckRound(input, version));
  LH_RETURN_IF_ERROR(CheckParts(input));
  const size_t count = input.contributions.size();
  // A contribution's norm does not depend on the weights.
  std::vector<Contribution> equal = input.contributions;
  for (Contribution& contribution : equal) contribution.weight = 1;
  const int64_t elements = options().fragment_elements[fragment];
  LH_ASSIGN_OR_RETURN(const ContributionReader reader,
                      ContributionReader::Create(log_.get(), elements, equal));
  LH_RETURN_IF_ERROR(VerifyContributions(input));
  struct Worker {
    ContributionReader::Buffer buffer;
    WeightedMean mean;
    TileMeasure result;
  };
  std::vector<Worker> workers(apply_threads_);
  const auto measure = [&](int64_t tile, int index) -> absl::Status {
    Worker& worker = workers[index];
    const int64_t in_tile = std::min(kTileElements, elements - tile * kTileElements);
    LH_RETURN_IF_ERROR(reader.ReadTile(tile * kTileBlocks, in_tile, &worker.buffer, &worker.mean));
    LH_ASSIGN_OR_RETURN(worker.result, MeasureTile(worker.mean));
    return absl::OkStatus();
  };
  TileMeasure all;
  const auto add_up = [&](int64_t, int index) {
    all.Add(workers[index].result);
    return absl::OkStatus();
  };
  LH_RETURN_IF_ERROR(
      ForTilesInOrder(CeilDiv(elements, kTileElements), apply_threads_, measure, add_up));
  const double share = 1 / static_cast<double>(count);
  std::vector<OuterMeasure> measures(count);
  for (size_t m = 0; m < count; ++m) {
    measures[m].norm = std::sqrt(all.energies[m]) / share;
    if (count < 3) continue;
    measures[m].cosine = all.Cosine(m);
    measures[m].others = all.CosineOfOthers(m);
  }
  return measures;
}

absl::StatusOr<CommitRecord> JobStore::Apply(const RoundInput& input) {
  LH_ASSIGN_OR_RETURN(Fragment * fragment, FindFragment(input.round.fragment));
  // There is memory for one downlink.
  absl::MutexLockMaybe round_lock(IsCoded(input.round.kind) ? &round_mutex_ : nullptr);
  absl::MutexLock lock(&fragment->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  FragmentState& state = fragment->state;
  LH_RETURN_IF_ERROR(CheckRound(input, state.version));
  LH_RETURN_IF_ERROR(CheckParts(input));
  LH_ASSIGN_OR_RETURN(
      const ContributionReader contributions,
      ContributionReader::Create(log_.get(), state.elements(), input.contributions));
  LH_RETURN_IF_ERROR(VerifyContributions(input));
  LoggedCommit commit = DescribeRound(input, state.digest);
  const int64_t bytes = DownlinkWriter::BytesMax(*rules_.down, state.elements()) +
                        FrameBytes(EncodeCommit(commit).size() + kResultBytesMax);
  LH_ASSIGN_OR_RETURN(Log::Reservation reservation, log_->Reserve(bytes));
  // From here on the state changes in place. After an error only recovery can restore it.
  absl::StatusOr<CommitRecord> record =
      Perform(std::move(commit), contributions, reservation, *fragment);
  if (!record.ok()) return log_->Fail(record.status());
  return record;
}

absl::Status JobStore::VerifyContributions(const RoundInput& input) {
  const absl::Status verified = VerifyParts(*log_, input.contributions, apply_threads_);
  if (!DamagedPartOf(verified).has_value()) return verified;
  // A frame after it must say that it was durable: so recovery does not take it for the torn end of
  // the log, and leaves it out alone. A downlink part without tiles is that frame.
  LH_RETURN_IF_ERROR(log_->Sync());
  const std::string no_tiles =
      EncodeDownlinkPart({.fragment = input.round.fragment, .version = input.round.version});
  LH_RETURN_IF_ERROR(log_->Append(FrameType::kDownlink, no_tiles, {}).status());
  LH_RETURN_IF_ERROR(log_->Sync());
  return verified;
}

std::unique_ptr<DownlinkBytes> JobStore::TakeDownlinkBytes(RoundKind kind, int64_t elements) {
  if (!IsCoded(kind)) return std::make_unique<DownlinkBytes>(0);
  const int64_t bytes = rules_.down->FragmentBytes(elements);
  std::unique_ptr<DownlinkBytes> newest;
  {
    absl::MutexLock lock(&newest_mutex_);
    newest = std::exchange(newest_downlink_, {}).bytes;
  }
  if (newest != nullptr && static_cast<int64_t>(newest->span().size()) == bytes) return newest;
  // Before the new memory is there.
  newest.reset();
  return std::make_unique<DownlinkBytes>(bytes);
}

absl::StatusOr<CommitRecord> JobStore::Perform(LoggedCommit commit,
                                               const ContributionReader& contributions,
                                               Log::Reservation& reservation, Fragment& fragment) {
  CommitRecord& record = commit.record;
  const RoundId& round = record.round;
  DownlinkWriter writer(log_.get(), &reservation, rules_.down.get(), round);
  std::unique_ptr<DownlinkBytes> downlink =
      TakeDownlinkBytes(round.kind, fragment.state.elements());
  const RoundWork work = {
      .contributions = &contributions,
      .noise_key = NoiseKeyOf(options(), round),
      .downlink = downlink->span(),
      .sink = [&](const SegmentRef& segment,
                  absl::Span<const uint8_t> payload) { return writer.Add(segment, payload); },
      .threads = apply_threads_};
  LH_ASSIGN_OR_RETURN(const RoundSums sums, ApplyToState(rules_, round.kind, work, fragment.state));
  LH_RETURN_IF_ERROR(writer.Finish());
  record.digest = sums.digest;
  record.downlink_nmse = sums.signal_energy > 0 ? sums.error_energy / sums.signal_energy : 0;
  record.outer_gradient_norm = std::sqrt(sums.gradient_energy);
  record.outer_parameter_norm = std::sqrt(sums.parameter_energy);
  record.downlink_bytes = sums.downlink_bytes;
  record.contribution_cosine = MeanCosine(sums.agreement);
  commit.first_downlink = writer.first_sequence();
  LH_ASSIGN_OR_RETURN(const AppendedFrame frame,
                      log_->Append(FrameType::kCommit, EncodeCommit(commit), {}, &reservation));
  LH_RETURN_IF_ERROR(log_->Sync());
  fragment.state.version = round.version;
  fragment.state.commit_sequence = frame.sequence;
  fragment.state.digest = record.digest;
  fragment.downlink = writer.TakeIndex();
  Publish(record, std::move(downlink), fragment);
  return record;
}

void JobStore::Publish(const CommitRecord& record, std::unique_ptr<DownlinkBytes> downlink,
                       Fragment& fragment) {
  if (IsCoded(record.round.kind)) {
    absl::MutexLock lock(&newest_mutex_);
    newest_downlink_ = {record.round.fragment, record.round.version, std::move(downlink)};
  }
  absl::MutexLock lock(&mutex_);
  fragment.committed = record;
}

// --- Reads of committed versions.

namespace {

absl::Span<const float> ValuesOf(const FloatArray& theta, const BlockRange& range) {
  return absl::MakeConstSpan(theta).subspan(range.first * kBlockElements,
                                            ElementsOf(range, theta.size()));
}

absl::Status NotThere(int fragment, int64_t wanted, int64_t have) {
  return absl::FailedPreconditionError(absl::StrCat("fragment ", fragment, " is at version ", have,
                                                    "; version ", wanted, " was asked for"));
}

}  // namespace

absl::StatusOr<int64_t> JobStore::Version(int fragment) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::MutexLock lock(&mutex_);
  return found->committed.round.version;
}

absl::StatusOr<CommitRecord> JobStore::LastCommit(int fragment) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::MutexLock lock(&mutex_);
  if (found->committed.round.version < 0) return NotSeeded(fragment);
  return found->committed;
}

absl::StatusOr<CodedBlocks> JobStore::ReadDownlink(int fragment, int64_t version,
                                                   absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, found->state.elements()));
  if (version != found->state.version) return NotThere(fragment, version, found->state.version);
  if (found->downlink.elements() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("version ", version, " of fragment ", fragment, " has no downlink"));
  }
  {
    // While these bytes are copied, no round takes their memory.
    absl::ReaderMutexLock newest_lock(&newest_mutex_);
    if (newest_downlink_.fragment == fragment && newest_downlink_.version == version)
      return found->downlink.Read(*log_, newest_downlink_.bytes.get(), blocks);
  }
  return found->downlink.Read(*log_, nullptr, blocks);
}

absl::StatusOr<CodedBlocks> JobStore::ReadOuter(int fragment, int64_t version,
                                                absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  const FloatArray& theta = found->state.theta;
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, found->state.elements()));
  if (found->state.version < 0) return NotSeeded(fragment);
  if (version != found->state.version) return NotThere(fragment, version, found->state.version);
  const std::vector<BlockRange> ranges(blocks.begin(), blocks.end());
  CodedBlocks read = {CutSegments(ranges, theta.size()),
                      AlignedBuffer::Mapped(ElementsOf(ranges, theta.size()) * sizeof(float))};
  absl::Span<uint8_t> room = read.payload.span();
  for (const BlockRange& range : blocks) {
    const absl::string_view bytes = BytesOf(ValuesOf(theta, range));
    std::memcpy(room.data(), bytes.data(), bytes.size());
    room.remove_prefix(bytes.size());
  }
  return read;
}

absl::StatusOr<OuterDigest> JobStore::DigestOuter(int fragment,
                                                  absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  const FragmentState& state = found->state;
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, state.elements()));
  if (state.version < 0) return NotSeeded(fragment);
  if (blocks.size() == 1 && ElementsOf(blocks[0], state.elements()) == state.elements()) {
    return OuterDigest{state.version, state.digest, found->downlink.elements() > 0};
  }
  Digester digester;
  for (const BlockRange& range : blocks) digester.Update(ValuesOf(state.theta, range));
  return OuterDigest{state.version, digester.Value(), found->downlink.elements() > 0};
}

}  // namespace longhaul
