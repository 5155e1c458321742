// The manifest of a job's folder.
//   input: u8 1: the rest is the message, its size and digest are made right | the file
#include "common/io/digest.h"
#include "coordinator/store/envelope.h"
#include "coordinator/store/job_manifest.h"
#include "tests/fuzz/coordinator/store/file_image.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul::fuzz::job_manifest_fuzz {
namespace {

constexpr char kMagic[] = "LHMANIF3";

}  // namespace

std::vector<Seed> Seeds() {
  MemoryFileSystem fs;
  JobManifest manifest = {.id = "id", .name = "name", .spec = "spec"};
  manifest.options.fragment_elements = {1000, 384};
  LH_CHECK(WriteJobManifest(fs, "", manifest).ok(), "memory takes a manifest");
  const std::string bytes = ReadImage(fs, "/manifest");
  const absl::StatusOr<absl::string_view> message = OpenEnvelope(kMagic, bytes, "manifest");
  LH_CHECK(message.ok(), "what was written is whole");
  return {{"whole", FuzzWriter().Byte(0).Bytes(bytes).Take()},
          {"sealed", FuzzWriter().Byte(1).Bytes(*message).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool sealed = input.Flag();
  const absl::string_view bytes = input.Rest();
  MemoryFileSystem fs;
  WriteImage(fs, "/manifest", sealed ? WithEnvelope(kMagic, bytes) : std::string(bytes));
  const absl::StatusOr<JobManifest> manifest = ReadJobManifest(fs, "");
  CheckDocumented(manifest.status(),
                  {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition,
                   absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  if (!manifest.ok()) return 0;
  LH_CHECK(CheckOptions(manifest->options).ok(), "what was read is in range");
  LH_CHECK(WriteJobManifest(fs, "", *manifest).ok(), "memory takes a manifest");
  const absl::StatusOr<JobManifest> again = ReadJobManifest(fs, "");
  LH_CHECK(again.ok() && again->name == manifest->name && again->spec == manifest->spec &&
               again->created == manifest->created &&
               again->options.fragment_elements == manifest->options.fragment_elements &&
               again->options.log_salt == manifest->options.log_salt &&
               again->options.outer_lr == manifest->options.outer_lr,
           "what was read can be written");
  return 0;
}

}  // namespace longhaul::fuzz::job_manifest_fuzz
