// Values cut from the bytes of a fuzz input, and the inverse for seeds: what FuzzWriter writes,
// FuzzInput reads. Little-endian; past the end there are zeros. Small header-only values, not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace longhaul::fuzz {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  template <typename T>
  T Take() {
    T value{};
    const absl::string_view bytes = Bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  uint8_t Byte() { return Take<uint8_t>(); }
  bool Flag() { return (Byte() & 1) != 0; }
  // In [low, high], from one byte.
  int Choice(int low, int high) { return low + Byte() % (high - low + 1); }
  // Up to `size` bytes.
  absl::string_view Bytes(size_t size) {
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  // Its length as two bytes, then its bytes.
  absl::string_view String() { return Bytes(Take<uint16_t>()); }
  absl::string_view Rest() { return std::exchange(rest_, {}); }
  bool empty() const { return rest_.empty(); }

 private:
  absl::string_view rest_;
};

class FuzzWriter {
 public:
  template <typename T>
  FuzzWriter& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  FuzzWriter& Byte(uint8_t value) { return Put(value); }
  FuzzWriter& Bytes(absl::string_view bytes) {
    bytes_.append(bytes.data(), bytes.size());
    return *this;
  }
  FuzzWriter& String(absl::string_view bytes) {
    return Put(static_cast<uint16_t>(bytes.size())).Bytes(bytes);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace longhaul::fuzz
