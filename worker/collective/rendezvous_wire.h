// Bytes of the TCP rendezvous: one request and one reply for each connection. All integers
// little-endian.
//
//   request  char[4] "LHRV" | u32 version | char[64] token, zero-padded | u64 generation |
//            u32 rank | u32 blob bytes | blob
//   reply    u32 status code (absl::StatusCode) | u32 count | count times: u32 bytes | bytes
//            (OK: the blobs by rank; else: one string, the message)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

inline constexpr size_t kRendezvousTokenBytesMax = 64;
inline constexpr size_t kRendezvousBlobBytesMax = 64 << 10;
inline constexpr size_t kRendezvousRanksMax = 256;

struct RendezvousRequest {
  uint64_t generation = 0;
  uint32_t rank = 0;
  std::string blob;
};

// The token and the blob are within their bounds.
std::string EncodeRequest(absl::string_view token, const RendezvousRequest& request);

// From the first bytes of a connection: nullopt while more are needed. The magic and the token are
// checked as soon as their bytes are there. UNAUTHENTICATED: they are wrong. INVALID_ARGUMENT: the
// blob is too large, or bytes follow it.
absl::StatusOr<std::optional<RendezvousRequest>> DecodeRequest(absl::string_view bytes,
                                                               absl::string_view token);

std::string EncodeReply(const absl::StatusOr<std::vector<std::string>>& reply);

// nullopt while more bytes are needed. DATA_LOSS: they are not a reply of `size` ranks, or exceed
// its bounds. Otherwise the reply that was sent, which may be an error.
std::optional<absl::StatusOr<std::vector<std::string>>> DecodeReply(absl::string_view bytes,
                                                                    int size);

}  // namespace longhaul
