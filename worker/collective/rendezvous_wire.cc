#include "worker/collective/rendezvous_wire.h"

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

constexpr absl::string_view kMagic("LHRV\x01\0\0\0", 8);  // with the version
constexpr size_t kPreambleBytes = 8 + kRendezvousTokenBytesMax;
constexpr size_t kHeaderBytes = kPreambleBytes + 16;
constexpr size_t kMessageBytesMax = 4096;

template <typename T>
void Append(std::string* bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes->push_back(static_cast<char>(value >> (8 * i)));
}

template <typename T>
T Read(absl::string_view bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= T{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  return value;
}

std::string Preamble(absl::string_view token) {
  std::string bytes(kMagic);
  bytes.append(token.data(), token.size());
  bytes.resize(kPreambleBytes, '\0');
  return bytes;
}

// Takes the same time wherever the first difference is.
bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace

std::string EncodeRequest(absl::string_view token, const RendezvousRequest& request) {
  std::string bytes = Preamble(token);
  Append(&bytes, request.generation);
  Append(&bytes, request.rank);
  Append(&bytes, static_cast<uint32_t>(request.blob.size()));
  return bytes + request.blob;
}

absl::StatusOr<std::optional<RendezvousRequest>> DecodeRequest(absl::string_view bytes,
                                                               absl::string_view token) {
  if (bytes.size() < kPreambleBytes) return std::nullopt;
  if (!EqualInConstantTime(bytes.substr(0, kPreambleBytes), Preamble(token))) {
    return absl::UnauthenticatedError("rendezvous: wrong magic, version or token");
  }
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  const size_t blob_bytes = Read<uint32_t>(bytes, kPreambleBytes + 12);
  if (blob_bytes > kRendezvousBlobBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: a blob of ", blob_bytes, " bytes"));
  }
  if (bytes.size() < kHeaderBytes + blob_bytes) return std::nullopt;
  if (bytes.size() > kHeaderBytes + blob_bytes)
    return absl::InvalidArgumentError("rendezvous: bytes after the request");
  return RendezvousRequest{Read<uint64_t>(bytes, kPreambleBytes),
                           Read<uint32_t>(bytes, kPreambleBytes + 8),
                           std::string(bytes.substr(kHeaderBytes))};
}

std::string EncodeReply(const absl::StatusOr<std::vector<std::string>>& reply) {
  const std::vector<std::string> message = {
      std::string(reply.status().message().substr(0, kMessageBytesMax))};
  const std::vector<std::string>& strings = reply.ok() ? *reply : message;
  std::string bytes;
  Append(&bytes, static_cast<uint32_t>(reply.status().code()));
  Append(&bytes, static_cast<uint32_t>(strings.size()));
  for (const std::string& string : strings) {
    Append(&bytes, static_cast<uint32_t>(string.size()));
    bytes += string;
  }
  return bytes;
}

std::optional<absl::StatusOr<std::vector<std::string>>> DecodeReply(absl::string_view bytes,
                                                                    int size) {
  if (bytes.size() < 8) return std::nullopt;
  const auto code = static_cast<absl::StatusCode>(Read<uint32_t>(bytes, 0));
  const uint32_t count = Read<uint32_t>(bytes, 4);
  if (count != (code == absl::StatusCode::kOk ? static_cast<uint32_t>(size) : 1)) {
    return absl::DataLossError(absl::StrCat("rendezvous: a reply of ", count, " strings"));
  }
  std::vector<std::string> strings;
  size_t offset = 8;
  while (strings.size() < count) {
    if (bytes.size() - offset < 4) return std::nullopt;
    const size_t length = Read<uint32_t>(bytes, offset);
    offset += 4;
    if (length > kRendezvousBlobBytesMax) {
      return absl::DataLossError(
          absl::StrCat("rendezvous: a string of ", length, " bytes in the reply"));
    }
    if (bytes.size() - offset < length) return std::nullopt;
    strings.emplace_back(bytes.substr(offset, length));
    offset += length;
  }
  if (code == absl::StatusCode::kOk) return strings;
  return absl::Status(code, strings[0]);
}

}  // namespace longhaul
