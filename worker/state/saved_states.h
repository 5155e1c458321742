// The inner state that lies in a folder: what ranks of a pool saved there, at this node or at all
// of them if they share the folder. Each save is a file for each rank; any number of ranks can be
// put together again from the files of any other number, as far as they lie here.
// Where they lie is said by state_folders.h.
//
// Reads alone, but for the function that removes. Used from one thread; blocks on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"
#include "worker/replica/inner_state.h"
#include "worker/state/state_file.h"
#include "worker/state/state_folders.h"

namespace longhaul {

// One save of a pool.
struct SaveId {
  int64_t step = 0;
  uint64_t life = 0;
  friend bool operator==(const SaveId&, const SaveId&) = default;
};

class SavedStates {
 public:
  struct Options {
    FileSystem* fs = nullptr;  // Outlives the object.
    std::string folder;        // Of the job. Empty: none.
    StateOwner owner;          // Others' files are told about and left out.
    int rank = 0, ranks = 1;   // Who reads.
  };
  // Reads the headers of all files. A folder that is not there has none.
  static SavedStates Scan(Options options);

  // Why files are left out, in words: damaged, of another job, of a later version.
  const std::vector<std::string>& problems() const { return problems_; }
  // Names of all files of inner state in the folder, temporary ones among them.
  const std::vector<std::string>& files() const { return files_; }

  // Saves, newest first.
  std::vector<SaveId> saves() const;
  // How far the optimizer was. Empty: no such save, or its files do not agree.
  std::vector<NamedValue> PhaseOf(const SaveId& save) const;
  // Whose files of a save lie here: the ranks, and how many ranks the pool had.
  struct Writers {
    std::vector<int> ranks;
    int of = 0;
  };
  Writers WritersOf(const SaveId& save) const;
  // Whether the files here hold every slot that is not IsOptional.
  bool Covers(const SaveId& save, absl::Span<const InnerStateSlot> slots) const;
  // The slots' values, verified; optional slots that are not here whole are left out. DATA_LOSS:
  // what is needed of it is damaged. NOT_FOUND: it does not cover the slots.
  absl::StatusOr<InnerState> Load(const SaveId& save, absl::Span<const InnerStateSlot> slots) const;

 private:
  struct Save {
    SaveId id;
    std::vector<StateFile> files;
    bool agrees = true;  // On the phase.
  };
  struct Piece {
    const StateFile* file;
    size_t index;
    int64_t offset, count;  // In the file's slot.
  };
  explicit SavedStates(Options options) : options_(std::move(options)) {}
  void Add(StateFile file);
  const Save* Find(const SaveId& id) const;
  // Which pieces make up a slot, in order. Empty: it is not here whole.
  std::vector<Piece> PiecesOf(const Save& save, const InnerStateSlot& slot) const;

  Options options_;
  std::vector<Save> saves_;  // Newest first.
  std::vector<std::string> problems_, files_;
};

// Removes files of the folder. Those that are not there count as removed; another error is
// returned, with the rest removed.
absl::Status RemoveStateFiles(FileSystem& fs, const std::string& folder,
                              absl::Span<const std::string> names);

}  // namespace longhaul
