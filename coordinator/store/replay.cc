#include "coordinator/store/replay.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/contribution_reader.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_manifest.h"

namespace longhaul {

Replay::Replay(const Log* log, const JobStoreOptions* options, const OuterRules* rules, int threads)
    : log_(log), options_(*options), rules_(*rules), threads_(threads) {}

absl::Status Replay::Lost(const LogFrame& frame, const CommitRecord& record,
                          absl::string_view why) const {
  return absl::DataLossError(
      absl::StrCat(log_->Describe(frame.body), ": version ", record.round.version, " of fragment ",
                   record.round.fragment, " (frame ", frame.sequence, "): ", why));
}

absl::StatusOr<std::string> Replay::ReadHead(const LogFrame& frame) const {
  std::string head(std::min(kRecordSizeBytes, frame.body_bytes), '\0');
  const auto read = [&] {
    return log_->Read(frame.body,
                      absl::MakeSpan(reinterpret_cast<uint8_t*>(head.data()), head.size()));
  };
  LH_RETURN_IF_ERROR(read());
  LH_ASSIGN_OR_RETURN(const int64_t bytes, DecodeRecordSize(head, frame.body_bytes));
  head.resize(bytes);
  LH_RETURN_IF_ERROR(read());
  return head;
}

absl::StatusOr<std::optional<LoggedCommit>> Replay::Take(const LogFrame& frame) {
  const auto annotate = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat(log_->Describe(frame.body), ": ", status.message()));
  };
  const absl::StatusOr<std::string> head = ReadHead(frame);
  if (!head.ok()) return annotate(head.status());
  const LogPosition payload = {frame.body.file,
                               frame.body.offset + static_cast<int64_t>(head->size())};
  switch (frame.type) {
    case FrameType::kPart: {
      absl::StatusOr<PartInfo> part = DecodePart(*head);
      if (!part.ok()) return annotate(part.status());
      parts_[frame.sequence] = {*std::move(part),
                                payload,
                                frame.body_digest,
                                frame.sequence,
                                static_cast<int64_t>(head->size()),
                                frame.body_bytes};
      return std::nullopt;
    }
    case FrameType::kDownlink: {
      absl::StatusOr<DownlinkPart> part = DecodeDownlinkPart(*head);
      if (!part.ok()) return annotate(part.status());
      downlinks_[frame.sequence] = {*std::move(part), payload};
      return std::nullopt;
    }
    case FrameType::kCommit: {
      absl::StatusOr<LoggedCommit> commit = DecodeCommit(*head);
      if (!commit.ok()) return annotate(commit.status());
      return *std::move(commit);
    }
  }
  return annotate(absl::DataLossError(absl::StrCat(
      "frame ", frame.sequence, " has the unknown type ", static_cast<uint32_t>(frame.type))));
}

absl::Status Replay::CheckInputs(const LogFrame& frame, const LoggedCommit& commit) const {
  for (const std::vector<LoggedCommit::Input>& inputs : commit.inputs) {
    for (const LoggedCommit::Input& input : inputs) {
      const auto found = damaged_.find(input.sequence);
      if (found != damaged_.end()) return Lost(frame, commit.record, found->second.message());
    }
  }
  return absl::OkStatus();
}

absl::Status Replay::Repeat(const LogFrame& frame, const LoggedCommit& commit,
                            FragmentState& state) const {
  const CommitRecord& record = commit.record;
  if (record.round.version == state.version) {
    return record.digest == state.digest ? absl::OkStatus()
                                         : Lost(frame, record, "the digest differs");
  }
  if (record.round.version > state.version + 1) {
    return Lost(frame, record, "the rounds before it are missing");
  }
  if (commit.arithmetic != kArithmeticVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(log_->Describe(frame.body), " was written by version ", commit.arithmetic,
                     " of the arithmetic, this program has ", kArithmeticVersion));
  }
  if (commit.previous != state.digest) {
    return Lost(frame, record, "it was made from other parameters");
  }
  const absl::StatusOr<RoundSums> sums = ApplyAgain(commit, state);
  if (!sums.ok()) return Lost(frame, record, sums.status().message());
  if (sums->digest != record.digest) return Lost(frame, record, "the digest differs");
  state.version = record.round.version;
  state.commit_sequence = frame.sequence;
  state.digest = sums->digest;
  return absl::OkStatus();
}

absl::StatusOr<RoundSums> Replay::ApplyAgain(const LoggedCommit& commit,
                                             FragmentState& state) const {
  std::vector<Contribution> contributions;
  for (size_t i = 0; i < commit.record.pools.size(); ++i) {
    Contribution contribution = {commit.record.pools[i], commit.weights[i], {}};
    for (const LoggedCommit::Input& input : commit.inputs[i]) {
      const auto found = parts_.find(input.sequence);
      if (found == parts_.end() || found->second.body_digest != input.body_digest) {
        return absl::DataLossError(absl::StrCat("part ", input.sequence, " is missing"));
      }
      contribution.parts.push_back(found->second);
    }
    contributions.push_back(std::move(contribution));
  }
  LH_ASSIGN_OR_RETURN(const ContributionReader reader,
                      ContributionReader::Create(log_, state.elements(), contributions));
  const RoundWork work = {
      .contributions = &reader,
      .noise_key = NoiseKeyOf(options_, commit.record.round),
      // The downlink is in the log already.
      .sink = [](const SegmentRef&, absl::Span<const uint8_t>) { return absl::OkStatus(); },
      .threads = threads_};
  return ApplyToState(rules_, commit.record.round.kind, work, state);
}

absl::StatusOr<DownlinkIndex> Replay::FindDownlink(const LogFrame& frame,
                                                   const LoggedCommit& commit) const {
  const CommitRecord& record = commit.record;
  DownlinkIndex index(rules_.down->kind());
  if (record.downlink_bytes == 0) return index;
  for (auto it = downlinks_.lower_bound(commit.first_downlink); it != downlinks_.end(); ++it) {
    const auto& [part, payload] = it->second;
    if (part.fragment != record.round.fragment || part.version != record.round.version) continue;
    if (!index.Add(*rules_.down, part.segments, payload)) break;
  }
  if (index.elements() == options_.fragment_elements[record.round.fragment]) return index;
  return Lost(frame, record, "its downlink is not whole");
}

void Replay::AddDamaged(const std::vector<DamagedFrame>& parts) {
  for (const DamagedFrame& part : parts) damaged_[part.sequence] = part.status;
}

void Replay::Forget(const RoundId& round) {
  const auto is_past = [&](const auto& of) {
    return of.fragment == round.fragment && of.version <= round.version;
  };
  std::erase_if(parts_, [&](const auto& entry) { return is_past(entry.second.info.round); });
  std::erase_if(downlinks_, [&](const auto& entry) { return is_past(entry.second.first); });
}

std::vector<StoredPart> Replay::TakeParts() {
  std::vector<StoredPart> parts;
  for (auto& [sequence, part] : std::exchange(parts_, {})) parts.push_back(std::move(part));
  return parts;
}

absl::StatusOr<std::vector<CommitRecord>> LoggedCommits(FileSystem& fs, const std::string& job_dir,
                                                        bool leave_out_parts) {
  LH_ASSIGN_OR_RETURN(const JobManifest job, ReadJobManifest(fs, job_dir));
  LH_ASSIGN_OR_RETURN(const ScannedLog log, ScanLog(fs, LogFolder(job_dir),
                                                    {.salt = job.options.log_salt,
                                                     .read_only = true,
                                                     .leave_out_parts = leave_out_parts}));
  std::vector<CommitRecord> commits;
  for (const LogFrame& frame : log.frames) {
    if (frame.type != FrameType::kCommit) continue;
    std::string body(frame.body_bytes, '\0');
    const File& file = *log.start.files.at(frame.body.file).file;
    LH_RETURN_IF_ERROR(file.ReadExactly(frame.body.offset, absl::MakeSpan(body)));
    LH_ASSIGN_OR_RETURN(LoggedCommit commit, DecodeCommit(body));
    commits.push_back(std::move(commit.record));
  }
  return commits;
}

}  // namespace longhaul
