// Seeds a job that begins with a checkpoint or a Hugging Face folder. Its tensors become the
// contribution to version 0, in the log like every other. So recovery does not need the folder any
// more.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/initial_folder.h"
#include "common/hf/hf_model.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/fragments/kept_tokenizer.h"
#include "coordinator/fragments/part_intake.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/uploads.h"

namespace longhaul::coordinator {
namespace {

// A part is 4 tiles: 1 MiB.
constexpr int64_t kPartBlocks = 4 * kTileBlocks;
// Of an answer.
constexpr int64_t kTokenizerDataBytes = 1 << 20;
constexpr char kBadSeedUrl[] = "longhaul.fragments.bad_seed";

// Reads these tensors of a Hugging Face folder into a fragment. Other types are converted in small
// pieces, so that this takes the fragment's memory alone.
absl::StatusOr<FloatArray> ReadHfSeed(const std::string& folder, int64_t elements,
                                      absl::Span<const v1::CheckpointTensor> tensors) {
  LH_ASSIGN_OR_RETURN(const HfModel model, OpenHfModel(folder));
  struct Source {
    int unit = 0;
    const TensorLayout* tensor = nullptr;
  };
  absl::flat_hash_map<std::string, Source> sources;
  for (size_t u = 0; u < model.layout.units.size(); ++u) {
    for (const TensorLayout& tensor : model.layout.units[u].tensors)
      sources[tensor.name] = {static_cast<int>(u), &tensor};
  }
  FloatArray values(elements);
  for (const v1::CheckpointTensor& tensor : tensors) {
    const auto found = sources.find(tensor.name());
    // The folder may have changed since the job was submitted.
    const bool same =
        found != sources.end() &&
        std::equal(tensor.shape().begin(), tensor.shape().end(),
                   found->second.tensor->shape.begin(), found->second.tensor->shape.end());
    if (!same) {
      return absl::NotFoundError(
          absl::StrCat(folder, " has no tensor ", tensor.name(), " of the job's shape"));
    }
    const auto [unit, source] = found->second;
    if (tensor.offset() < 0 || source->elements > elements ||
        tensor.offset() > elements - source->elements) {
      return absl::InvalidArgumentError(
          absl::StrCat(tensor.name(), " lies outside of its fragment"));
    }
    LH_RETURN_IF_ERROR(model.parameters->Read(
        unit, source->offset, absl::MakeSpan(values.data() + tensor.offset(), source->elements)));
  }
  return values;
}

absl::StatusOr<FloatArray> ReadSeed(const JobFragments& job, SharedStore& store, FileSystem* fs,
                                    const std::string& folder, int fragment) {
  std::vector<v1::CheckpointTensor> tensors;
  for (const v1::CheckpointTensor& tensor : job.initial()->tensors) {
    if (tensor.fragment() == fragment) tensors.push_back(tensor);
  }
  if (IsHfFolder(folder)) return ReadHfSeed(folder, job.elements(fragment), tensors);
  SharedStore::SeedSource& source = store.seed_source();
  absl::MutexLock lock(&source.mutex);
  if (!source.reader.has_value()) {
    LH_ASSIGN_OR_RETURN(source.reader, CheckpointReader::Open(fs, folder));
  }
  return source.reader->Read(job.elements(fragment), tensors);
}

absl::Status SeedError(const absl::Status& cause) {
  absl::Status status(cause.code(), absl::StrCat("the initial checkpoint: ", cause.message()));
  if (absl::IsDataLoss(cause) || absl::IsInvalidArgument(cause))
    status.SetPayload(kBadSeedUrl, absl::Cord());
  return status;
}

}  // namespace

bool IsBadSeed(const absl::Status& status) { return status.GetPayload(kBadSeedUrl).has_value(); }

std::string Fragments::InitialFolder(const InitialCheckpoint& initial) const {
  if (!initial.upload.empty()) return UploadFolder(options_.data_dir, initial.upload);
  return initial.folder.empty() ? CheckpointPath(JobDir(initial.job), initial.step)
                                : initial.folder;
}

absl::StatusOr<v1::GetTokenizerResponse> Fragments::FindTokenizer(
    const v1::GetTokenizerRequest& request) const {
  const std::shared_ptr<JobFragments> job = Find(request.job_id());
  if (job == nullptr || !job->initial().has_value() || job->initial()->tokenizer.empty())
    return absl::NotFoundError("no such job, or one that keeps no tokenizer");
  std::string folder = TokenizerFolder(JobDir(job->id()));
  const absl::Status kept = parts_.fs->List(folder).status();
  // It is copied when the job is seeded.
  if (absl::IsNotFound(kept)) folder = TokenizerSourceOf(InitialFolder(*job->initial()));
  if (!kept.ok() && !absl::IsNotFound(kept)) return kept;
  v1::GetTokenizerResponse response;
  if (!request.file().empty()) {
    LH_ASSIGN_OR_RETURN(
        *response.mutable_data(),
        ReadTokenizer(folder, request.file(), request.offset(), kTokenizerDataBytes));
    return response;
  }
  LH_ASSIGN_OR_RETURN(const std::vector<FolderFile> files,
                      ListTokenizer(folder, job->initial()->tokenizer));
  for (const FolderFile& file : files) {
    v1::TokenizerFile& listed = *response.add_files();
    listed.set_name(file.name);
    listed.set_bytes(file.bytes);
    listed.set_sha256(file.sha256);
  }
  return response;
}

absl::Status Fragments::CheckInitial(const JobFragments& job) const {
  // A folder of the user's may be on a disk that hangs. It was read before; seeding finds out if it
  // is gone.
  if (!job.initial().has_value() || !job.initial()->folder.empty()) return absl::OkStatus();
  const std::string folder = InitialFolder(*job.initial());
  const absl::Status found = parts_.fs->List(folder).status();
  if (!absl::IsNotFound(found)) return found;
  return absl::FailedPreconditionError(absl::StrCat("there is no checkpoint ", folder));
}

absl::Status Fragments::CheckFinite(const CommitRecord& commit) {
  if (std::isfinite(commit.outer_parameter_norm)) return absl::OkStatus();
  return SeedError(absl::DataLossError(
      absl::StrCat("fragment ", commit.round.fragment, " has values that are not finite")));
}

absl::Status Fragments::LogSeed(const std::shared_ptr<JobFragments>& job,
                                const std::shared_ptr<SharedStore>& store, int fragment) {
  const std::string folder = InitialFolder(*job->initial());
  const ContributionKey key{{fragment, 0, RoundKind::kSeed}, kCheckpointPool, kCheckpointPool};
  if (store->contributions().Whole(key)) return absl::OkStatus();
  if (const std::string& tokenizer = job->initial()->tokenizer;
      !tokenizer.empty() && fragment == 0) {
    // The folder may be removed once the job has begun.
    const absl::Status kept =
        KeepTokenizer(*parts_.fs, TokenizerSourceOf(folder), tokenizer, JobDir(job->id()));
    if (!kept.ok()) return SeedError(kept);
  }
  const Workspace::Turn turn((*store)->workspace());
  const absl::StatusOr<FloatArray> values = ReadSeed(*job, *store, parts_.fs, folder, fragment);
  if (!values.ok()) return SeedError(values.status());
  const int64_t elements = values->size(), end = CeilDiv(elements, kBlockElements);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(values->data());
  // Blocks that an attempt before a crash logged are dropped there.
  PartIntake intake(job, store, key);
  for (int64_t at = 0; at < end; at += kPartBlocks) {
    const BlockRange blocks{at, std::min(kPartBlocks, end - at)};
    const absl::Span<const uint8_t> payload(bytes + at * kBlockElements * sizeof(float),
                                            ElementsOf(blocks, elements) * sizeof(float));
    const absl::Status taken = intake.Take({.segments = CutSegments({blocks}, elements),
                                            .pieces = {payload},
                                            .payload_bytes = static_cast<int64_t>(payload.size())});
    if (!taken.ok()) return absl::IsInvalidArgument(taken) ? SeedError(taken) : taken;
  }
  return intake.Finish();
}

}  // namespace longhaul::coordinator
