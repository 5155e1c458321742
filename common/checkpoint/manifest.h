// The manifest of a checkpoint as text, and what makes one sound. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/digest.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr int64_t kManifestBytesMax = 64 << 20;
// Fragments and tensors that a manifest may name.
inline constexpr int kManifestEntriesMax = 1 << 20;

// Fills in what follows from the rest: hexadecimal digests, each tensor's file, byte and type.
void CompleteManifest(v1::CheckpointManifest& manifest);
// Proto JSON with every field. INVALID_ARGUMENT: it has no JSON form.
absl::StatusOr<std::string> ManifestToJson(const v1::CheckpointManifest& manifest);

// The message in bytes from anywhere, or nothing: they are too many, or no such JSON. Fields of a
// later program are left out.
std::optional<v1::CheckpointManifest> ParseManifest(absl::string_view json);

// The same, and sound; `path` is for messages. DATA_LOSS: not a manifest, or what it says cannot
// be: sizes, names of files (plain, each once), tensors that lie outside of their fragments.
absl::StatusOr<v1::CheckpointManifest> ManifestFromJson(absl::string_view json,
                                                        const std::string& path);

// Bytes of a fragment's file.
int64_t FileBytes(const v1::CheckpointFragment& fragment);
Digest128 DigestOf(const v1::CheckpointFragment& fragment);

}  // namespace longhaul
