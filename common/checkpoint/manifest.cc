#include "common/checkpoint/manifest.h"

#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/layout/model_layout.h"
#include "common/wire/proto_values.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul {
namespace {

// The number of elements, or nothing if the shape is impossible.
std::optional<int64_t> ElementsOf(const v1::CheckpointTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape()) {
    if (extent < 0) return std::nullopt;
    const std::optional<int64_t> product = CheckedMul(elements, extent);
    if (!product.has_value()) return std::nullopt;
    elements = *product;
  }
  return elements;
}

absl::Status CheckFragments(const v1::CheckpointManifest& manifest) {
  std::set<std::string> files;
  int64_t elements = 0;
  for (int f = 0; f < manifest.fragments_size(); ++f) {
    const v1::CheckpointFragment& fragment = manifest.fragments(f);
    if (fragment.fragment() != f)
      return absl::DataLossError(absl::StrCat("fragment ", f, " is missing"));
    if (fragment.elements() < 1 || fragment.elements() > kMaxModelElements - elements)
      return absl::DataLossError(absl::StrCat("fragment ", f, " has an impossible size"));
    elements += fragment.elements();
    if (!IsPlainFileName(fragment.file()) || fragment.file() == kManifestFile ||
        !files.insert(fragment.file()).second)
      return absl::DataLossError(absl::StrCat(
          "fragment ", f,
          " has an invalid or repeated file name: ", fragment.file().substr(0, kFileNameBytesMax)));
  }
  return absl::OkStatus();
}

absl::Status CheckTensors(const v1::CheckpointManifest& manifest) {
  std::set<absl::string_view> names;
  for (const v1::CheckpointTensor& tensor : manifest.tensors()) {
    const auto fault = [&](absl::string_view what) {
      return absl::DataLossError(absl::StrCat("tensor ", tensor.name().substr(0, 256), " ", what));
    };
    if (tensor.name().empty() || !names.insert(tensor.name()).second)
      return fault("has no name or a repeated one");
    if (tensor.fragment() < 0 || tensor.fragment() >= manifest.fragments_size())
      return fault("lies in no fragment");
    const std::optional<int64_t> elements = ElementsOf(tensor);
    const int64_t room = manifest.fragments(tensor.fragment()).elements();
    if (!elements.has_value() || tensor.offset() < 0 || *elements > room ||
        tensor.offset() > room - *elements)
      return fault("lies outside of its fragment");
  }
  return absl::OkStatus();
}

// The messages follow the manifest's path.
absl::Status CheckManifest(const v1::CheckpointManifest& manifest) {
  if (manifest.format_version() == 0)
    return absl::InvalidArgumentError("is not a checkpoint's manifest");
  if (manifest.format_version() != kManifestFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        "has format ", manifest.format_version(), "; this program knows format ", kManifestFormat));
  }
  if (manifest.fragments().empty()) return absl::DataLossError("has no fragments");
  if (manifest.fragments_size() > kManifestEntriesMax ||
      manifest.tensors_size() > kManifestEntriesMax)
    return absl::DataLossError("has too many entries");
  if (manifest.step() < 0) return absl::DataLossError("has a negative step");
  LH_RETURN_IF_ERROR(CheckFragments(manifest));
  return CheckTensors(manifest);
}

}  // namespace

absl::Status CheckFileBytes(const v1::CheckpointFragment& fragment, int64_t bytes,
                            const std::string& path) {
  if (bytes == FileBytes(fragment)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " has ", bytes,
                                          " bytes instead of four for each of ",
                                          fragment.elements(), " elements"));
}

absl::Status CheckFileDigest(const v1::CheckpointFragment& fragment, const Digest128& digest,
                             const std::string& path) {
  if (digest == DigestOf(fragment)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " is damaged: its digest differs"));
}

int64_t FileBytes(const v1::CheckpointFragment& fragment) {
  return fragment.elements() * static_cast<int64_t>(sizeof(float));
}

Digest128 DigestOf(const v1::CheckpointFragment& fragment) {
  return DigestFromProto(fragment.digest());
}

void CompleteManifest(v1::CheckpointManifest& manifest) {
  for (v1::CheckpointFragment& fragment : *manifest.mutable_fragments())
    fragment.set_digest_hex(DigestOf(fragment).Hex());
  int64_t parameters = 0;
  for (v1::CheckpointTensor& tensor : *manifest.mutable_tensors()) {
    tensor.set_dtype("F32");
    tensor.set_byte_offset(CheckedMul(tensor.offset(), sizeof(float)).value_or(0));
    if (tensor.fragment() >= 0 && tensor.fragment() < manifest.fragments_size())
      tensor.set_file(manifest.fragments(tensor.fragment()).file());
    parameters += ElementsOf(tensor).value_or(0);
  }
  manifest.set_parameters(parameters);
}

absl::StatusOr<std::string> ManifestToJson(const v1::CheckpointManifest& manifest) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  if (!google::protobuf::util::MessageToJsonString(manifest, &json, options).ok())
    return absl::InvalidArgumentError("the manifest has no JSON form");
  return json;
}

absl::StatusOr<v1::CheckpointManifest> ManifestFromJson(absl::string_view json,
                                                        const std::string& path) {
  v1::CheckpointManifest manifest;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (json.size() > static_cast<size_t>(kManifestBytesMax) ||
      !google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &manifest, options)
           .ok())
    return absl::DataLossError(absl::StrCat(path, " is not a checkpoint's manifest"));
  if (const absl::Status sound = CheckManifest(manifest); !sound.ok())
    return absl::Status(sound.code(), absl::StrCat(path, " ", sound.message()));
  return manifest;
}

}  // namespace longhaul
