// Writes, parses and checks the manifest of a checkpoint. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/digest.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr int64_t kManifestBytesMax = 64 << 20;
// CheckpointManifest.format_version.
inline constexpr int kManifestFormat = 1;
// How many fragments and tensors a manifest may name.
inline constexpr int kManifestEntriesMax = 1 << 20;

// Fills in all fields that follow from others: hexadecimal digests, and each tensor's file, byte
// and type.
void CompleteManifest(v1::CheckpointManifest& manifest);
// Proto JSON with every field. INVALID_ARGUMENT: it has no JSON form.
absl::StatusOr<std::string> ManifestToJson(const v1::CheckpointManifest& manifest);

// Parses and checks bytes from any source. `path` is for messages. Fields that a later program
// added are ignored. FAILED_PRECONDITION: another format. INVALID_ARGUMENT: a manifest of
// something else. DATA_LOSS: too many bytes, or not such JSON; impossible sizes, names of files
// that are not plain or occur twice, or tensors outside of their fragments.
absl::StatusOr<v1::CheckpointManifest> ManifestFromJson(absl::string_view json,
                                                        const std::string& path);

// Compares a fragment's file with the manifest: first its size, then its digest. DATA_LOSS names
// `path`.
absl::Status CheckFileBytes(const v1::CheckpointFragment& fragment, int64_t bytes,
                            const std::string& path);
absl::Status CheckFileDigest(const v1::CheckpointFragment& fragment, const Digest128& digest,
                             const std::string& path);

// The size of a fragment's file.
int64_t FileBytes(const v1::CheckpointFragment& fragment);
Digest128 DigestOf(const v1::CheckpointFragment& fragment);

}  // namespace longhaul
