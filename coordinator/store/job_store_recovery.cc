// JobStore::Recover: the newest snapshots, then the later rounds again, each compared with the
// digest of its commit.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/job_store.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Recover(FileSystem* fs, const std::string& dir,
                                                            int apply_threads) {
  LH_ASSIGN_OR_RETURN(const JobManifest manifest, ReadJobManifest(*fs, dir));
  LH_ASSIGN_OR_RETURN(std::unique_ptr<JobStore> store, Make(fs, dir, manifest, apply_threads));
  absl::Status loaded = store->Load();
  // The manifest was there, so whatever else is missing is lost, not unmade.
  if (absl::IsNotFound(loaded)) return absl::DataLossError(loaded.message());
  LH_RETURN_IF_ERROR(loaded);
  return store;
}

absl::Status JobStore::Load() {
  // An earlier process may have ended between a change of names and its sync; from here on what is
  // found is relied on.
  for (const std::string& folder : {dir_, LogFolder(dir_), SnapshotFolder(dir_)}) {
    LH_RETURN_IF_ERROR(fs_->SyncDir(folder));
  }
  LH_RETURN_IF_ERROR(CleanCheckpoints(*fs_, dir_));
  LH_ASSIGN_OR_RETURN(const uint64_t durable_upto, LoadSnapshots());
  LH_ASSIGN_OR_RETURN(RecoveredLog recovered,
                      RecoverLog(*fs_, LogFolder(dir_), {options().log_salt, durable_upto}));
  recovery_.log_frames = recovered.frames.size();
  recovery_.torn_bytes_dropped = recovered.torn_bytes;
  log_ = std::make_unique<Log>(fs_, LogFolder(dir_),
                               LogFileOptions{options().log_file_bytes, options().log_salt},
                               std::move(recovered.start));
  return Replay(recovered.frames);
}

// Returns the sequence below which the snapshots prove that frames were durable.
absl::StatusOr<uint64_t> JobStore::LoadSnapshots() {
  uint64_t durable_upto = 0;
  LH_ASSIGN_OR_RETURN(std::vector<SnapshotFile> files, ListSnapshots(*fs_, SnapshotFolder(dir_)));
  for (SnapshotFile& file : files) {
    LH_ASSIGN_OR_RETURN(Fragment* const fragment, FindFragment(file.fragment));
    durable_upto = std::max(durable_upto, file.commit_sequence + 1);
    fragment->snapshots.push_back(std::move(file));
  }
  for (const std::unique_ptr<Fragment>& fragment : fragments_) {
    std::vector<SnapshotFile>& kept = fragment->snapshots;
    while (!kept.empty()) {
      const absl::Status read = ReadSnapshot(*fs_, kept.back(), &fragment->state);
      if (read.ok()) break;
      if (!absl::IsDataLoss(read)) return read;
      // A damaged one is no reason to stop: the log goes back to the generation before.
      ++recovery_.snapshots_rejected;
      LH_RETURN_IF_ERROR(fs_->Remove(kept.back().path));
      kept.pop_back();
      fragment->state = FragmentState(fragment->state.elements());
    }
  }
  return durable_upto;
}

absl::StatusOr<std::string> JobStore::ReadBody(const RecoveredFrame& frame, int64_t bytes) const {
  std::string body(bytes, '\0');
  LH_RETURN_IF_ERROR(
      log_->Read(frame.body, absl::MakeSpan(reinterpret_cast<uint8_t*>(body.data()), bytes)));
  return body;
}

absl::Status JobStore::Replay(const std::vector<RecoveredFrame>& frames) {
  UncommittedFrames pending;
  for (const RecoveredFrame& frame : frames) LH_RETURN_IF_ERROR(ReplayFrame(frame, &pending));
  for (size_t i = 0; i < fragments_.size(); ++i) {
    if (fragments_[i]->committed.version == fragments_[i]->state.version) continue;
    return absl::DataLossError(absl::StrCat(dir_, ": the log lacks the commit of version ",
                                            fragments_[i]->state.version, " of fragment ", i));
  }
  for (auto& [sequence, part] : pending.parts) {
    // A commit takes all parts of its version and earlier ones; but a part may have been appended
    // while its round was committed without it.
    const absl::StatusOr<Fragment*> fragment = FindFragment(part.info.fragment);
    if (fragment.ok() && part.info.version == (*fragment)->committed.version + 1) {
      pending_.push_back(std::move(part));
    }
  }
  return absl::OkStatus();
}

absl::Status JobStore::ReplayFrame(const RecoveredFrame& frame, UncommittedFrames* pending) {
  int64_t record_bytes = frame.body_bytes;
  if (frame.type != FrameType::kCommit) {
    LH_ASSIGN_OR_RETURN(const std::string head,
                        ReadBody(frame, std::min(kRecordSizeBytes, frame.body_bytes)));
    LH_ASSIGN_OR_RETURN(record_bytes, DecodeRecordSize(head, frame.body_bytes));
  }
  LH_ASSIGN_OR_RETURN(const std::string record, ReadBody(frame, record_bytes));
  const LogPosition payload = {frame.body.file, frame.body.offset + record_bytes};
  switch (frame.type) {
    case FrameType::kPart: {
      LH_ASSIGN_OR_RETURN(PartInfo part, DecodePart(record));
      pending->parts[frame.sequence] = {std::move(part), payload, frame.body_digest,
                                        frame.sequence};
      return absl::OkStatus();
    }
    case FrameType::kDownlink: {
      LH_ASSIGN_OR_RETURN(DownlinkPart part, DecodeDownlinkPart(record));
      pending->downlinks[frame.sequence] = {std::move(part), payload};
      return absl::OkStatus();
    }
    case FrameType::kCommit: {
      LH_ASSIGN_OR_RETURN(const LoggedCommit commit, DecodeCommit(record));
      return ReplayCommit(frame.sequence, commit, pending);
    }
  }
  return absl::DataLossError(absl::StrCat("frame ", frame.sequence, " has the unknown type ",
                                          static_cast<uint32_t>(frame.type)));
}

absl::Status JobStore::ReplayCommit(uint64_t sequence, const LoggedCommit& commit,
                                    UncommittedFrames* pending) {
  const CommitRecord& record = commit.record;
  const auto lost = [&](absl::string_view why) {
    return absl::DataLossError(absl::StrCat(dir_, ": version ", record.version, " of fragment ",
                                            record.fragment, " (frame ", sequence,
                                            " of the log): ", why));
  };
  const absl::StatusOr<Fragment*> found = FindFragment(record.fragment);
  if (!found.ok()) return lost("no such fragment");
  Fragment& fragment = **found;
  FragmentState& state = fragment.state;
  if (record.version > state.version + 1) return lost("the rounds before it are missing");
  if (record.version == state.version + 1) {
    if (commit.arithmetic != kArithmeticVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat(dir_, " was written by version ", commit.arithmetic,
                       " of the arithmetic, this program has ", kArithmeticVersion));
    }
    if (commit.previous != state.digest) return lost("it was made from other parameters");
    const absl::Status applied = RepeatRound(commit, *pending, state);
    if (!applied.ok()) return lost(applied.message());
    state.version = record.version;
    state.commit_sequence = sequence;
    ++recovery_.commits_replayed;
  }
  if (record.version == state.version) {
    if (record.digest != state.digest) return lost("the digest differs");
    LH_ASSIGN_OR_RETURN(fragment.downlink, FindDownlink(commit, *pending));
    fragment.committed = record;
  }
  const auto is_past = [&](int fragment_id, int64_t version) {
    return fragment_id == record.fragment && version <= record.version;
  };
  std::erase_if(pending->parts, [&](const auto& entry) {
    return is_past(entry.second.info.fragment, entry.second.info.version);
  });
  std::erase_if(pending->downlinks, [&](const auto& entry) {
    return is_past(entry.second.first.fragment, entry.second.first.version);
  });
  return absl::OkStatus();
}

absl::Status JobStore::RepeatRound(const LoggedCommit& commit, const UncommittedFrames& pending,
                                   FragmentState& state) const {
  std::vector<Contribution> contributions;
  for (size_t i = 0; i < commit.record.pools.size(); ++i) {
    Contribution contribution = {commit.record.pools[i], commit.weights[i], {}};
    for (const LoggedCommit::Input& input : commit.inputs[i]) {
      const auto found = pending.parts.find(input.sequence);
      if (found == pending.parts.end() || found->second.body_digest != input.body_digest) {
        return absl::DataLossError(absl::StrCat("part ", input.sequence, " is missing"));
      }
      contribution.parts.push_back(found->second);
    }
    contributions.push_back(std::move(contribution));
  }
  LH_ASSIGN_OR_RETURN(const ContributionReader reader,
                      ContributionReader::Create(log_.get(), state.elements(), contributions));
  DownlinkBytes downlink(rules_.down->FragmentBytes(state.elements()));
  const RoundWork work = {
      .contributions = &reader,
      .noise_key = NoiseKeyOf(options(), commit.record.fragment, commit.record.version),
      .downlink = downlink.span(),
      // It lies in the log already.
      .sink = [](const SegmentRef&, absl::Span<const uint8_t>) { return absl::OkStatus(); },
      .threads = apply_threads_};
  LH_ASSIGN_OR_RETURN(const RoundSums sums, ApplyRound(rules_, commit.record.kind, work, state));
  state.digest = sums.digest;
  return absl::OkStatus();
}

absl::StatusOr<DownlinkIndex> JobStore::FindDownlink(const LoggedCommit& commit,
                                                     const UncommittedFrames& pending) const {
  const CommitRecord& record = commit.record;
  DownlinkIndex index(rules_.down->kind());
  if (record.downlink_bytes == 0) return index;
  for (auto it = pending.downlinks.lower_bound(commit.first_downlink);
       it != pending.downlinks.end(); ++it) {
    const auto& [part, payload] = it->second;
    if (part.fragment != record.fragment || part.version != record.version) continue;
    if (!index.Add(*rules_.down, part.segments, payload)) break;
  }
  if (index.elements() == options().fragment_elements[record.fragment]) return index;
  return absl::DataLossError(absl::StrCat(dir_, ": the downlink of version ", record.version,
                                          " of fragment ", record.fragment, " is not whole"));
}

}  // namespace longhaul
