#include "coordinator/store/job_manifest.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "coordinator/store/wire.h"

namespace longhaul {
namespace {

constexpr absl::string_view kMagic = "LHMANIF2";
constexpr size_t kFragmentsMax = 65536, kDigestBytes = 16;
constexpr int64_t kElementsMax = int64_t{1} << 40, kManifestBytesMax = 1 << 20;

constexpr uint32_t kSearchScale = 1, kStochastic = 2, kRmsScale = 4;

uint32_t EncoderFlags(const CodecOptions& options) {
  return (options.search_scale ? kSearchScale : 0) | (options.stochastic ? kStochastic : 0) |
         (options.rms_scale ? kRmsScale : 0);
}

std::string PathOf(const std::string& job_dir) { return JoinPath(job_dir, "manifest"); }

}  // namespace

absl::Status CheckOptions(const JobStoreOptions& options) {
  const auto refuse = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  if (options.fragment_elements.empty() || options.fragment_elements.size() > kFragmentsMax) {
    return refuse("a job has 1 to 65,536 fragments");
  }
  for (const int64_t elements : options.fragment_elements) {
    if (elements < 1 || elements > kElementsMax) return refuse("a fragment has 1 to 2^40 elements");
  }
  // Written so that NaN fails.
  if (!(options.outer_lr > 0 && options.outer_lr <= 1024))
    return refuse("outer lr is not in (0, 1024]");
  if (!(options.outer_momentum >= 0 && options.outer_momentum <= 1 - 0x1p-20)) {
    return refuse("outer momentum is not in [0, 1 - 2^-20]");
  }
  if (options.snapshot_every < 1) return refuse("snapshot_every is below 1");
  if (options.checkpoints_keep < 1) return refuse("checkpoints_keep is below 1");
  if (options.log_segment_bytes < 4096) return refuse("log_segment_bytes is below 4096");
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> down, MakeCodec(options.down));
  if (down->planes().blocks_per_group != 1) {
    return refuse("a downlink must be cut at any block: this codec codes blocks in groups");
  }
  return absl::OkStatus();
}

absl::Status WriteJobManifest(FileSystem& fs, const std::string& job_dir,
                              const JobStoreOptions& options) {
  WireWriter out;
  out.Bytes(kMagic);
  out.U32(static_cast<uint32_t>(options.down.kind));
  out.U32(EncoderFlags(options.down));
  out.F64(options.down.feedback_decay);
  out.F64(options.outer_lr);
  out.F64(options.outer_momentum);
  out.U64(options.snapshot_every);
  out.U64(options.checkpoints_keep);
  out.U64(options.log_segment_bytes);
  out.U64(options.log_salt);
  out.U32(options.fragment_elements.size());
  for (const int64_t elements : options.fragment_elements) out.U64(elements);
  out.Digest(DigestOf(out.bytes()));
  return WriteFileAtomically(fs, PathOf(job_dir), out.bytes());
}

absl::StatusOr<JobStoreOptions> ReadJobManifest(FileSystem& fs, const std::string& job_dir) {
  const std::string path = PathOf(job_dir);
  LH_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(fs, path, kManifestBytesMax));
  WireReader in(bytes);
  const absl::string_view magic = in.Bytes(kMagic.size());
  if (in.ok() && magic.substr(0, 7) == kMagic.substr(0, 7) && magic != kMagic) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has the unknown format ", magic));
  }
  JobStoreOptions options;
  options.down.kind = static_cast<CodecKind>(in.U32());
  const uint32_t flags = in.U32();
  options.down.search_scale = (flags & kSearchScale) != 0;
  options.down.stochastic = (flags & kStochastic) != 0;
  options.down.rms_scale = (flags & kRmsScale) != 0;
  options.down.feedback_decay = static_cast<float>(in.F64());
  options.outer_lr = in.F64();
  options.outer_momentum = in.F64();
  options.snapshot_every = in.U64();
  options.checkpoints_keep = in.U64();
  options.log_segment_bytes = in.U64();
  options.log_salt = in.U64();
  const uint32_t fragments = in.U32();
  for (uint32_t i = 0; i < fragments && in.ok(); ++i) {
    options.fragment_elements.push_back(in.U64());
  }
  const Digest128 digest = in.Digest();
  const bool whole = in.ok() && in.rest().empty() && magic == kMagic;
  if (!whole || digest != DigestOf(bytes.substr(0, bytes.size() - kDigestBytes))) {
    return absl::DataLossError(absl::StrCat(path, " is damaged"));
  }
  LH_RETURN_IF_ERROR(CheckOptions(options));
  return options;
}

}  // namespace longhaul
