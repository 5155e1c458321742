// A file of inner state: what one rank of a pool held of it after one step. It is a safetensors
// file, so any tool for those shows what it holds.
//
//   tensors     KIND/UNIT/FIRST, F32, one dimension: elements from FIRST on of unit number UNIT, of
//               the kind that NameOf(InnerStateKind) says
//   metadata    format: "longhaul-inner-state"      version: "1"
//               job, pool, spec, layout             what it belongs to: ids and digests
//               life                                which start of the pool's ranks wrote it
//               step, rank, ranks
//               phase/NAME                          InnerState::phase; 17 digits
//               xxh3/TENSOR                         XXH3-128 of the tensor's bytes
//               header                              XXH3-128 of all of the header but this
//
// A reader takes nothing of a file before the digest over it was right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "common/io/digest.h"
#include "common/io/filesystem.h"
#include "common/safetensors/safetensors_file.h"
#include "worker/replica/inner_state.h"

namespace longhaul {

inline constexpr int kStateVersion = 1;

// What state belongs to: state of another job, spec or model is of no use.
struct StateOwner {
  std::string job, pool;
  std::string spec, layout;  // Digests.
  friend bool operator==(const StateOwner&, const StateOwner&) = default;
};

struct StateTag {
  StateOwner owner;
  uint64_t life = 0;  // The same for all ranks of a pool between two starts of them.
  int64_t step = 0;   // After which it was taken.
  int rank = 0, ranks = 1;
  std::vector<NamedValue> phase;
  friend bool operator==(const StateTag&, const StateTag&) = default;
};

// Writes it under its name, whole and durably, or not at all (NewFile). Blocks. INVALID_ARGUMENT:
// the model has too many units for one file. Else the file system's errors.
absl::Status WriteStateFile(FileSystem* fs, const std::string& path, const StateTag& tag,
                            absl::Span<const InnerStatePart> parts);

// Puts the digests into a header, in place of those that it has. `digest`: of the bytes of a
// tensor, by its index.
void SignStateHeader(SafetensorsHeader& header, absl::FunctionRef<Digest128(size_t)> digest);

// Opens a file and reads its header. Movable; thread-safe. The file may be replaced meanwhile.
class StateFile {
 public:
  // NOT_FOUND: no such file. FAILED_PRECONDITION: of a later version. DATA_LOSS: anything else that
  // is not such a file, whole. All name the path.
  static absl::StatusOr<StateFile> Open(const std::string& path);

  const StateTag& tag() const { return tag_; }
  const std::vector<InnerStateSlot>& slots() const { return slots_; }
  // Reads slot `index` and compares its digest. DATA_LOSS.
  absl::Status Verify(size_t index) const;
  // Of slot `index`, from element `offset` of it on, as many as `out` has. DATA_LOSS.
  absl::Status Read(size_t index, int64_t offset, absl::Span<float> out) const;

 private:
  StateFile(SafetensorsFile file, StateTag tag, std::vector<InnerStateSlot> slots)
      : file_(std::move(file)), tag_(std::move(tag)), slots_(std::move(slots)) {}

  SafetensorsFile file_;
  StateTag tag_;
  std::vector<InnerStateSlot> slots_;  // As the header's tensors.
};

}  // namespace longhaul
