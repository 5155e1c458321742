// The index of Megatron-LM's data, little-endian:
//   "MMIDIDX\0\0" | u64 version = 1 | u8 type of a token | u64 sequences |
//   u64 entries of `documents`
//   i32[sequences] tokens of each | i64[sequences] where each begins in the .bin, in bytes
//   i64[entries] documents: first sequence of each, and at last their number
// Types: 1 uint8, 3 int16, 4 int32, 5 int64, 8 uint16 (2, 6, 7: int8 and floats, no tokens).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/read_only_file.h"

namespace longhaul {

inline constexpr char kMegatronMagic[] = "MMIDIDX\0";  // 9 bytes with the literal's own zero.
inline constexpr int64_t kMegatronMagicBytes = 9, kMegatronHeaderBytes = 34;

struct MegatronIndex {
  // Bytes of a token.
  int width = 2;
  // Tokens are below it, if their type is signed.
  int64_t limit = std::numeric_limits<int64_t>::max();
  int64_t tokens = 0, sequences = 0, documents = 0;
};

// Whether all of an index is compared with itself, or of a large one the entries at some places
// (check_places.h), so that its time does not grow with the index.
enum class IndexCheck { kAll, kPlaces };

// INVALID_ARGUMENT: it is not an index, or of another version or type; sizes
// do not add up; sequences do not follow each other without gaps, as Megatron-LM writes them; or
// documents are out of order. Otherwise the errors of ReadOnlyFile.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(const ReadOnlyFile& file,
                                                IndexCheck check = IndexCheck::kAll);

// The token with which a document begins; that of one that the index does not have: its end.
// `file`: see below. Errors: those of ReadOnlyFile.
absl::StatusOr<int64_t> MegatronDocumentStart(const ReadOnlyFile& file, const MegatronIndex& index,
                                              int64_t document);

// Appends the places in [first, end) where a document begins, plus `shift`, ascending, each once.
// `file`: the one that `index` was read from. It is searched in place, so documents take no memory.
// If it has changed since, or its entries there were not compared, the places are wrong, but stay
// within the range.
absl::Status AppendMegatronStarts(const ReadOnlyFile& file, const MegatronIndex& index,
                                  int64_t first, int64_t end, int64_t shift,
                                  std::vector<int64_t>& starts);

}  // namespace longhaul
