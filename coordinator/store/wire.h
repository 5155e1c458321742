// Little-endian fields of the on-disk formats. The reader is for bytes that may be damaged: a read
// beyond the end gives zeros and makes ok() false. So a decoder reads everything and checks once,
// before it uses a count.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "common/io/digest.h"

namespace longhaul {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie");

class WireWriter {
 public:
  void U32(uint32_t value) { Raw(&value, sizeof(value)); }
  void U64(uint64_t value) { Raw(&value, sizeof(value)); }
  void Digest(const Digest128& digest) {
    U64(digest.low);
    U64(digest.high);
  }
  // Writes the length as u32, then the bytes.
  void String(absl::string_view value) {
    U32(value.size());
    Raw(value.data(), value.size());
  }
  void Bytes(absl::string_view bytes) { Raw(bytes.data(), bytes.size()); }

  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  void Raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }

  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : rest_(bytes) {}

  uint32_t U32() { return Field<uint32_t>(); }
  uint64_t U64() { return Field<uint64_t>(); }
  Digest128 Digest() {
    Digest128 digest;
    digest.low = U64();
    digest.high = U64();
    return digest;
  }
  absl::string_view String() { return Bytes(U32()); }
  absl::string_view Bytes(size_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  bool ok() const { return ok_; }
  // The bytes that were not read yet.
  absl::string_view rest() const { return rest_; }

 private:
  template <typename T>
  T Field() {
    const absl::string_view bytes = Bytes(sizeof(T));
    T value = 0;
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace longhaul
