// The manifest of a job's folder.
//   input: u8 1: its digest is made right | the file
#include "common/io/digest.h"
#include "common/io/memory_filesystem.h"
#include "coordinator/store/job_manifest.h"
#include "tests/fuzz/coordinator/store/file_image.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz {
namespace {

// With the digest of everything before it at its end.
std::string Sealed(absl::string_view bytes) {
  const Digest128 digest = DigestOf(bytes);
  return FuzzWriter().Bytes(bytes).Put(digest.low).Put(digest.high).Take();
}

}  // namespace

std::vector<Seed> Seeds() {
  MemoryFileSystem fs;
  JobStoreOptions options;
  options.fragment_elements = {1000, 384};
  LH_CHECK(WriteJobManifest(fs, "", options).ok(), "memory takes a manifest");
  const std::string bytes = ReadImage(fs, "/manifest");
  return {{"whole", FuzzWriter().Byte(0).Bytes(bytes).Take()},
          {"sealed", FuzzWriter().Byte(1).Bytes(bytes).Take().substr(0, bytes.size() - 15)}};
}

}  // namespace longhaul::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;  // NOLINT: a file of one function
  fuzz::FuzzInput input(data, size);
  const bool sealed = input.Flag();
  const absl::string_view bytes = input.Rest();
  MemoryFileSystem fs;
  fuzz::WriteImage(fs, "/manifest", sealed ? fuzz::Sealed(bytes) : std::string(bytes));
  const absl::StatusOr<JobStoreOptions> options = ReadJobManifest(fs, "");
  fuzz::CheckDocumented(options.status(),
                        {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition,
                         absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  if (!options.ok()) return 0;
  LH_CHECK(CheckOptions(*options).ok(), "what was read is in range");
  LH_CHECK(WriteJobManifest(fs, "", *options).ok(), "memory takes a manifest");
  const absl::StatusOr<JobStoreOptions> again = ReadJobManifest(fs, "");
  LH_CHECK(again.ok() && again->fragment_elements == options->fragment_elements &&
               again->log_salt == options->log_salt && again->outer_lr == options->outer_lr,
           "what was read can be written");
  return 0;
}
