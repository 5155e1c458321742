#include "coordinator/store/job_store.h"

#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/shard_check.h"

namespace longhaul {

JobStore::JobStore(FileSystem* fs, std::string dir, JobStoreOptions options, OuterRules rules,
                   int apply_threads)
    : fs_(fs),
      dir_(std::move(dir)),
      options_(std::move(options)),
      rules_(std::move(rules)),
      apply_threads_(apply_threads) {
  for (const int64_t elements : options_.fragment_elements) {
    fragments_.push_back(std::make_unique<Fragment>(elements));
    fragments_.back()->committed.version = -1;
  }
}

JobStore::~JobStore() = default;

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Make(FileSystem* fs, const std::string& dir,
                                                         const JobStoreOptions& options,
                                                         int apply_threads) {
  LH_ASSIGN_OR_RETURN(OuterRules rules, MakeOuterRules(options));
  return absl::WrapUnique(new JobStore(fs, dir, options, std::move(rules), apply_threads));
}

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Create(FileSystem* fs, const std::string& dir,
                                                           const JobStoreOptions& options,
                                                           int apply_threads) {
  LH_RETURN_IF_ERROR(CheckOptions(options));
  const absl::Status found = ReadJobManifest(*fs, dir).status();
  if (found.ok()) return absl::AlreadyExistsError(absl::StrCat("there is a job in ", dir));
  if (!absl::IsNotFound(found)) return found;
  for (const std::string& folder : {LogFolder(dir), SnapshotFolder(dir), CheckpointFolder(dir)}) {
    LH_RETURN_IF_ERROR(CreateDirs(*fs, folder));
  }
  // Last: a folder without a manifest is one whose making did not finish.
  LH_RETURN_IF_ERROR(WriteJobManifest(*fs, dir, options));
  LH_ASSIGN_OR_RETURN(std::unique_ptr<JobStore> store, Make(fs, dir, options, apply_threads));
  store->log_ = std::make_unique<Log>(
      fs, LogFolder(dir), LogFileOptions{options.log_segment_bytes, options.log_salt}, LogStart());
  return store;
}

absl::StatusOr<JobStore::Fragment*> JobStore::FindFragment(int fragment) const {
  if (fragment >= 0 && fragment < static_cast<int>(fragments_.size())) {
    return fragments_[fragment].get();
  }
  return absl::NotFoundError(absl::StrCat("fragment ", fragment, " of ", fragments_.size()));
}

absl::StatusOr<ShardRef> JobStore::AppendShard(const ShardInfo& shard, Log::Pieces payload) {
  LH_RETURN_IF_ERROR(log_->status());
  LH_ASSIGN_OR_RETURN(const int64_t version, Version(shard.fragment));
  if (shard.version != version + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("fragment ", shard.fragment, " is at version ", version, "; a shard makes ",
                     version + 1, ", not ", shard.version));
  }
  const bool seed = shard.kind == RoundKind::kSeed;
  if (seed != (shard.version == 0) || shard.kind == RoundKind::kSkipped) {
    return absl::InvalidArgumentError(absl::StrCat("no round of kind ", RoundKindName(shard.kind),
                                                   " makes version ", shard.version));
  }
  if (seed && shard.codec != CodecKind::kFp32) {
    return absl::InvalidArgumentError("a seed is coded fp32");
  }
  int64_t payload_bytes = 0;
  for (const absl::Span<const uint8_t> piece : payload) payload_bytes += piece.size();
  LH_RETURN_IF_ERROR(CheckShard(shard, payload_bytes, options_.fragment_elements[shard.fragment]));
  const std::string record = EncodeShard(shard);
  LH_ASSIGN_OR_RETURN(const AppendedFrame frame, log_->Append(FrameType::kShard, record, payload));
  const LogPosition position = {frame.body.segment,
                                frame.body.offset + static_cast<int64_t>(record.size())};
  absl::MutexLock lock(&mutex_);
  shards_[frame.sequence] = {shard, position, frame.body_digest};
  return ShardRef{frame.sequence};
}

std::vector<std::pair<ShardRef, ShardInfo>> JobStore::PendingShards() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::pair<ShardRef, ShardInfo>> pending;
  for (const auto& [sequence, shard] : shards_) pending.push_back({{sequence}, shard.info});
  return pending;
}

absl::StatusOr<std::vector<ContributionInput>> JobStore::CollectInputs(
    const RoundInput& round) const {
  absl::MutexLock lock(&mutex_);
  std::vector<ContributionInput> inputs;
  for (const Contribution& contribution : round.contributions) {
    ContributionInput input = {contribution.pool, contribution.weight, {}};
    for (const ShardRef& ref : contribution.shards) {
      const auto found = shards_.find(ref.sequence);
      if (found == shards_.end() || found->second.info.fragment != round.fragment ||
          found->second.info.version != round.version || found->second.info.kind != round.kind) {
        return absl::InvalidArgumentError(absl::StrCat("pool ", contribution.pool, ": frame ",
                                                       ref.sequence, " is no shard of this round"));
      }
      input.shards.push_back(found->second);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

namespace {

absl::Status CheckRound(const RoundInput& round, int64_t version) {
  if (round.version != version + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "fragment ", round.fragment, " is at version ", version, "; cannot make ", round.version));
  }
  const size_t count = round.contributions.size();
  const bool seed = round.kind == RoundKind::kSeed;
  const bool right_count = seed                                ? count == 1
                           : round.kind == RoundKind::kSkipped ? count == 0
                                                               : count >= 1;
  if (seed == (round.version == 0) && right_count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a round of kind ", RoundKindName(round.kind),
                                                 " cannot make version ", round.version, " from ",
                                                 count, " contributions"));
}

// Everything of the commit that is known before the round is applied.
LoggedCommit DescribeRound(const RoundInput& round, absl::Span<const ContributionInput> inputs,
                           const Digest128& previous) {
  LoggedCommit commit;
  commit.record.fragment = round.fragment;
  commit.record.version = round.version;
  commit.record.kind = round.kind;
  commit.record.evaluator = round.evaluator;
  commit.arithmetic = kArithmeticVersion;
  commit.previous = previous;
  for (size_t i = 0; i < inputs.size(); ++i) {
    commit.record.pools.push_back(inputs[i].pool);
    commit.weights.push_back(inputs[i].weight);
    std::vector<LoggedCommit::Input>& shards = commit.inputs.emplace_back();
    for (size_t j = 0; j < inputs[i].shards.size(); ++j) {
      shards.push_back(
          {round.contributions[i].shards[j].sequence, inputs[i].shards[j].body_digest});
    }
  }
  return commit;
}

}  // namespace

absl::StatusOr<CommitRecord> JobStore::Apply(const RoundInput& round) {
  LH_ASSIGN_OR_RETURN(Fragment * fragment, FindFragment(round.fragment));
  absl::MutexLock lock(&fragment->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  FragmentState& state = fragment->state;
  LH_RETURN_IF_ERROR(CheckRound(round, state.version));
  LH_ASSIGN_OR_RETURN(const std::vector<ContributionInput> inputs, CollectInputs(round));
  LH_ASSIGN_OR_RETURN(const ContributionReader contributions,
                      ContributionReader::Create(log_.get(), state.elements(), inputs));
  LoggedCommit commit = DescribeRound(round, inputs, state.digest);
  // The size of the record does not depend on what is not known yet.
  const int64_t bytes = DownlinkWriter::BytesMax(*rules_.down, state.elements()) +
                        FrameBytes(EncodeCommit(commit).size());
  LH_ASSIGN_OR_RETURN(Log::Reservation reservation, log_->Reserve(bytes));
  // From here on the state changes in place: after an error only recovery can say what it is.
  absl::StatusOr<CommitRecord> record =
      Perform(std::move(commit), contributions, reservation, *fragment);
  if (!record.ok()) return log_->Fail(record.status());
  return record;
}

std::shared_ptr<DownlinkBytes> JobStore::TakeDownlinkBytes(RoundKind kind, int64_t elements) {
  const bool coded = kind == RoundKind::kOuter || kind == RoundKind::kFinal;
  const int64_t bytes = coded ? rules_.down->FragmentBytes(elements) : 0;
  std::shared_ptr<const DownlinkBytes> newest;
  {
    absl::MutexLock lock(&mutex_);
    newest = std::exchange(newest_downlink_, {}).bytes;
  }
  const bool fits = newest != nullptr && static_cast<int64_t>(newest->span().size()) == bytes;
  if (fits && newest.use_count() == 1) {
    // The last pull that read them let go of them before.
    std::atomic_thread_fence(std::memory_order_acquire);
    return std::const_pointer_cast<DownlinkBytes>(newest);
  }
  return std::make_shared<DownlinkBytes>(bytes);
}

absl::StatusOr<CommitRecord> JobStore::Perform(LoggedCommit commit,
                                               const ContributionReader& contributions,
                                               Log::Reservation& reservation, Fragment& fragment) {
  CommitRecord& record = commit.record;
  DownlinkWriter writer(log_.get(), &reservation, rules_.down.get(), record.fragment,
                        record.version);
  std::shared_ptr<DownlinkBytes> downlink =
      TakeDownlinkBytes(record.kind, fragment.state.elements());
  const RoundWork work = {
      .contributions = &contributions,
      .noise_key = NoiseKeyOf(options_, record.fragment, record.version),
      .downlink = downlink->span(),
      .sink = [&](const SegmentRef& segment,
                  absl::Span<const uint8_t> payload) { return writer.Add(segment, payload); },
      .threads = apply_threads_};
  LH_ASSIGN_OR_RETURN(const RoundSums sums, ApplyRound(rules_, record.kind, work, fragment.state));
  LH_RETURN_IF_ERROR(writer.Finish());
  record.digest = sums.digest;
  record.downlink_nmse = sums.signal_energy > 0 ? sums.error_energy / sums.signal_energy : 0;
  record.outer_gradient_norm = std::sqrt(sums.gradient_energy);
  record.outer_parameter_norm = std::sqrt(sums.parameter_energy);
  record.downlink_bytes = sums.downlink_bytes;
  commit.first_downlink = writer.first_sequence();
  LH_ASSIGN_OR_RETURN(const AppendedFrame frame,
                      log_->Append(FrameType::kCommit, EncodeCommit(commit), {}, &reservation));
  LH_RETURN_IF_ERROR(log_->Sync());
  fragment.state.version = record.version;
  fragment.state.commit_sequence = frame.sequence;
  fragment.state.digest = record.digest;
  fragment.downlink = writer.TakeIndex();
  Publish(record, std::move(downlink), fragment);
  return record;
}

void JobStore::Publish(const CommitRecord& record, std::shared_ptr<const DownlinkBytes> downlink,
                       Fragment& fragment) {
  absl::MutexLock lock(&mutex_);
  fragment.committed = record;
  newest_downlink_ = {record.fragment, record.version, std::move(downlink)};
  std::erase_if(shards_, [&](const auto& entry) {
    const ShardInfo& shard = entry.second.info;
    return shard.fragment == record.fragment && shard.version <= record.version;
  });
}

}  // namespace longhaul
