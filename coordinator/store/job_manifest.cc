#include "coordinator/store/job_manifest.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/outer_momentum.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/envelope.h"
#include "coordinator/store/job_folder.h"
#include "longhaul/store/v1/records.pb.h"

namespace longhaul {
namespace {

constexpr absl::string_view kJobMagic = "LHMANIF3";
constexpr size_t kFragmentsMax = 65536;
constexpr int64_t kElementsMax = int64_t{1} << 40, kJobBytesMax = 16 << 20;

store::v1::JobManifest ProtoOf(const JobManifest& manifest) {
  const JobStoreOptions& options = manifest.options;
  store::v1::JobManifest proto;
  proto.set_job_id(manifest.id);
  proto.set_name(manifest.name);
  if (manifest.created != absl::InfinitePast()) {
    proto.set_created_us(absl::ToUnixMicros(manifest.created));
  }
  proto.set_idempotency_token(manifest.idempotency_token);
  proto.set_spec(manifest.spec);
  for (const int64_t elements : options.fragment_elements) proto.add_fragment_elements(elements);
  store::v1::DownlinkCodec& down = *proto.mutable_down();
  down.set_codec(static_cast<v1::Codec>(options.down.kind));
  down.set_search_scale(options.down.search_scale);
  down.set_stochastic(options.down.stochastic);
  down.set_rms_scale(options.down.rms_scale);
  down.set_feedback_decay(options.down.feedback_decay);
  proto.set_outer_lr(options.outer_lr);
  proto.set_outer_momentum(options.outer_momentum);
  proto.set_snapshot_every(options.snapshot_every);
  proto.set_checkpoints_keep(options.checkpoints_keep);
  proto.set_log_file_bytes(options.log_file_bytes);
  proto.set_log_salt(options.log_salt);
  proto.set_noise_seed(options.noise_seed);
  proto.set_owner(manifest.owner);
  return proto;
}

JobManifest ManifestOf(const store::v1::JobManifest& proto) {
  JobManifest manifest = {.id = proto.job_id(),
                          .name = proto.name(),
                          .idempotency_token = proto.idempotency_token(),
                          .spec = proto.spec()};
  if (proto.created_us() != 0) manifest.created = absl::FromUnixMicros(proto.created_us());
  JobStoreOptions& options = manifest.options;
  options.fragment_elements = {proto.fragment_elements().begin(), proto.fragment_elements().end()};
  options.down.kind = static_cast<CodecKind>(proto.down().codec());
  options.down.search_scale = proto.down().search_scale();
  options.down.stochastic = proto.down().stochastic();
  options.down.rms_scale = proto.down().rms_scale();
  options.down.feedback_decay = proto.down().feedback_decay();
  options.outer_lr = proto.outer_lr();
  options.outer_momentum = proto.outer_momentum();
  options.snapshot_every = proto.snapshot_every();
  // CheckOptions refuses a value that is too small.
  options.checkpoints_keep = static_cast<int>(
      std::clamp<int64_t>(proto.checkpoints_keep(), 0, std::numeric_limits<int>::max()));
  options.log_file_bytes = proto.log_file_bytes();
  options.log_salt = proto.log_salt();
  options.noise_seed = proto.has_noise_seed() ? proto.noise_seed() : proto.log_salt();
  manifest.owner = proto.owner();
  return manifest;
}

}  // namespace

absl::Status CheckOptions(const JobStoreOptions& options) {
  const auto refuse = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  if (options.fragment_elements.empty() || options.fragment_elements.size() > kFragmentsMax) {
    return refuse("a job has 1 to 65,536 fragments");
  }
  for (const int64_t elements : options.fragment_elements) {
    if (elements < 1 || elements > kElementsMax) return refuse("a fragment has 1 to 2^40 elements");
  }
  // The conditions are written so that NaN fails.
  if (!(options.outer_lr > 0 && options.outer_lr <= 1024))
    return refuse("outer lr is not in (0, 1024]");
  if (!(options.outer_momentum >= 0 && options.outer_momentum <= kOuterMomentumMax)) {
    return refuse("outer momentum is not in [0, 1 - 2^-20]");
  }
  if (options.snapshot_every < 1) return refuse("snapshot_every is below 1");
  if (options.checkpoints_keep < 1) return refuse("checkpoints_keep is below 1");
  if (options.log_file_bytes < 4096) return refuse("log_file_bytes is below 4096");
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> down, MakeCodec(options.down));
  if (down->planes().blocks_per_group != 1) {
    return refuse("a downlink must be cut at any block: this codec codes blocks in groups");
  }
  return absl::OkStatus();
}

absl::Status WriteJobManifest(FileSystem& fs, const std::string& job_dir,
                              const JobManifest& manifest) {
  const std::string bytes = WithEnvelope(kJobMagic, ProtoOf(manifest).SerializeAsString());
  if (bytes.size() > kJobBytesMax) {
    return absl::InvalidArgumentError("the job's spec is too large for its manifest");
  }
  return WriteFileAtomically(fs, ManifestPath(job_dir), bytes);
}

absl::StatusOr<JobManifest> ReadJobManifest(FileSystem& fs, const std::string& job_dir) {
  const std::string path = ManifestPath(job_dir);
  LH_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(fs, path, kJobBytesMax));
  LH_ASSIGN_OR_RETURN(const absl::string_view head, OpenEnvelope(kJobMagic, bytes, path));
  store::v1::JobManifest proto;
  if (!proto.ParseFromArray(head.data(), static_cast<int>(head.size()))) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: it does not decode"));
  }
  JobManifest manifest = ManifestOf(proto);
  LH_RETURN_IF_ERROR(CheckOptions(manifest.options));
  return manifest;
}

}  // namespace longhaul
