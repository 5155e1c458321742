// A write-ahead log of SQLite.
//   input: u8 1: checksums are made right | the file
#include <algorithm>
#include <string>

#include "coordinator/store/wal_check.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::wal_check_fuzz {
namespace {

constexpr size_t kPageBytes = 512, kHeaderBytes = 32, kFrameBytes = 24 + kPageBytes;

void PutBigEndian(uint32_t value, size_t at, std::string* bytes) {
  for (int i = 3; i >= 0; --i, value >>= 8) (*bytes)[at + i] = static_cast<char>(value);
}

uint32_t LittleEndian(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

struct Sum {
  uint32_t s0 = 0, s1 = 0;
  void Add(absl::string_view bytes) {
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      s0 += LittleEndian(bytes, at) + s1;
      s1 += LittleEndian(bytes, at + 4) + s0;
    }
  }
  void PutAt(size_t at, std::string* bytes) const {
    PutBigEndian(s0, at, bytes);
    PutBigEndian(s1, at + 4, bytes);
  }
};

// The format, the page size and all checksums: made right.
void Seal(std::string* wal) {
  if (wal->size() < kHeaderBytes) return;
  PutBigEndian(0x377f0682, 0, wal);
  PutBigEndian(kPageBytes, 8, wal);
  Sum sum;
  sum.Add(absl::string_view(*wal).substr(0, 24));
  sum.PutAt(24, wal);
  for (size_t at = kHeaderBytes; at + kFrameBytes <= wal->size(); at += kFrameBytes) {
    std::copy_n(wal->begin() + 16, 8, wal->begin() + at + 8);
    sum.Add(absl::string_view(*wal).substr(at, 8));
    sum.Add(absl::string_view(*wal).substr(at + 24, kPageBytes));
    sum.PutAt(at + 16, wal);
  }
}

// Frames of single pages, each a transaction.
std::string WalOf(int frames) {
  std::string wal(kHeaderBytes + frames * kFrameBytes, '\0');
  for (int i = 0; i < frames; ++i) {
    const size_t at = kHeaderBytes + i * kFrameBytes;
    PutBigEndian(i + 1, at, &wal);
    PutBigEndian(i + 1, at + 4, &wal);
  }
  Seal(&wal);
  return wal;
}

}  // namespace

std::vector<Seed> Seeds() {
  std::string spoilt = WalOf(3), torn = WalOf(2);
  spoilt[100] = 'x';
  torn.resize(torn.size() - 100);
  return {{"whole", FuzzWriter().Byte(0).Bytes(WalOf(2)).Take()},
          {"sealed", FuzzWriter().Byte(1).Bytes(WalOf(1)).Take()},
          {"torn", FuzzWriter().Byte(0).Bytes(torn).Take()},
          {"spoilt", FuzzWriter().Byte(0).Bytes(spoilt).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool sealed = input.Flag();
  std::string wal(input.Rest());
  if (sealed) Seal(&wal);
  const absl::StatusOr<int64_t> frames = CheckWal(wal, "wal");
  CheckDocumented(frames.status(), {absl::StatusCode::kDataLoss});
  const absl::StatusOr<std::string> merged = MergeWal("", wal, "wal");
  CheckDocumented(merged.status(), {absl::StatusCode::kDataLoss});
  LH_CHECK(frames.ok() || !merged.ok(), "a damaged log is not merged");
  LH_CHECK(!merged.ok() || merged->size() <= 2 * wal.size(), "what is merged came from the log");
  return 0;
}

}  // namespace longhaul::fuzz::wal_check_fuzz
