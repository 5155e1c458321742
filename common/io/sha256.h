// SHA-256, for bytes that are known by their digest to people who need not trust each other.
// Digests of bytes that only damage can change are in digest.h: they are several times as fast.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

// 64 lower-case hexadecimal digits.
bool IsSha256Hex(absl::string_view text);

// Of bytes that come in pieces. Movable; not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(absl::string_view bytes);
  // Of everything so far, in hexadecimal; more may follow.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(absl::string_view bytes);

// Adds bytes [from, to) of the file. Reads them in pieces of at most 1 MiB. Errors: those of the
// file; then `sha` has some of the bytes.
absl::Status AddFileTo(Sha256& sha, const File& file, int64_t from, int64_t to);

}  // namespace longhaul
