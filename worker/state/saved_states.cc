#include "worker/state/saved_states.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

std::vector<NamedValue> Sorted(std::vector<NamedValue> phase) {
  std::sort(phase.begin(), phase.end(),
            [](const NamedValue& a, const NamedValue& b) { return a.name < b.name; });
  return phase;
}

}  // namespace

SavedStates SavedStates::Scan(Options options) {
  SavedStates result(std::move(options));
  const Options& of = result.options_;
  if (of.folder.empty()) return result;
  const absl::StatusOr<std::vector<std::string>> names = ListIfThere(*of.fs, of.folder);
  if (!names.ok()) {
    result.problems_.push_back(std::string(names.status().message()));
    return result;
  }
  for (const std::string& name : *names) {
    if (IsStateFile(name)) result.files_.push_back(name);
    const std::optional<StateFileName> parsed = StateFileName::Parse(name);
    if (!parsed.has_value()) continue;
    const std::string path = JoinPath(of.folder, name);
    absl::StatusOr<StateFile> file = StateFile::Open(path);
    if (!file.ok()) {
      result.problems_.push_back(std::string(file.status().message()));
    } else if (file->tag().owner != of.owner) {
      result.problems_.push_back(absl::StrCat(path, ": is of another job, spec or model"));
    } else if (file->tag().step != parsed->step || file->tag().rank != parsed->rank ||
               file->tag().ranks != parsed->ranks) {
      result.problems_.push_back(absl::StrCat(path, ": was renamed"));
    } else {
      result.Add(*std::move(file));
    }
  }
  std::sort(result.saves_.begin(), result.saves_.end(), [](const Save& a, const Save& b) {
    return std::pair(a.id.step, a.id.life) > std::pair(b.id.step, b.id.life);
  });
  return result;
}

void SavedStates::Add(StateFile file) {
  const SaveId id{file.tag().step, file.tag().life};
  auto found =
      std::find_if(saves_.begin(), saves_.end(), [&](const Save& save) { return save.id == id; });
  if (found == saves_.end()) found = saves_.insert(saves_.end(), Save{.id = id});
  if (!found->files.empty() &&
      (Sorted(found->files.front().tag().phase) != Sorted(file.tag().phase) ||
       found->files.front().tag().ranks != file.tag().ranks)) {
    found->agrees = false;
  }
  found->files.push_back(std::move(file));
}

std::vector<SaveId> SavedStates::saves() const {
  std::vector<SaveId> ids;
  for (const Save& save : saves_) {
    if (save.agrees) ids.push_back(save.id);
  }
  return ids;
}

const SavedStates::Save* SavedStates::Find(const SaveId& id) const {
  for (const Save& save : saves_) {
    if (save.id == id && save.agrees) return &save;
  }
  return nullptr;
}

std::vector<NamedValue> SavedStates::PhaseOf(const SaveId& id) const {
  const Save* const save = Find(id);
  return save == nullptr ? std::vector<NamedValue>() : save->files.front().tag().phase;
}

SavedStates::Writers SavedStates::WritersOf(const SaveId& id) const {
  Writers writers;
  const Save* const save = Find(id);
  if (save == nullptr) return writers;
  writers.of = save->files.front().tag().ranks;
  for (const StateFile& file : save->files) writers.ranks.push_back(file.tag().rank);
  std::sort(writers.ranks.begin(), writers.ranks.end());
  return writers;
}

std::vector<SavedStates::Piece> SavedStates::PiecesOf(const Save& save,
                                                      const InnerStateSlot& slot) const {
  std::map<int64_t, Piece> by_first;  // In the unit.
  for (const StateFile& file : save.files) {
    const bool own = file.tag().rank == options_.rank && file.tag().ranks == options_.ranks;
    if (IsOfRank(slot.kind) && !own) continue;
    for (size_t i = 0; i < file.slots().size(); ++i) {
      const InnerStateSlot& held = file.slots()[i];
      if (held.kind == slot.kind && held.unit == slot.unit && held.count > 0)
        by_first[held.first] = {&file, i, 0, held.count};
    }
  }
  std::vector<Piece> pieces;
  const int64_t end = slot.first + slot.count;
  for (int64_t at = slot.first; at < end;) {
    auto next = by_first.upper_bound(at);
    if (next == by_first.begin()) return {};
    --next;
    Piece piece = next->second;
    piece.offset = at - next->first;
    piece.count = std::min(piece.count - piece.offset, end - at);
    if (piece.count <= 0) return {};
    pieces.push_back(piece);
    at += piece.count;
  }
  return pieces;
}

bool SavedStates::Covers(const SaveId& id, absl::Span<const InnerStateSlot> slots) const {
  const Save* const save = Find(id);
  if (save == nullptr) return false;
  return std::all_of(slots.begin(), slots.end(), [&](const InnerStateSlot& slot) {
    return IsOptional(slot.kind) || slot.count == 0 || !PiecesOf(*save, slot).empty();
  });
}

absl::StatusOr<InnerState> SavedStates::Load(const SaveId& id,
                                             absl::Span<const InnerStateSlot> slots) const {
  if (!Covers(id, slots))
    return absl::NotFoundError(absl::StrCat(options_.folder, ": step ", id.step, " is not whole"));
  const Save& save = *Find(id);
  InnerState state{.phase = save.files.front().tag().phase};
  std::set<std::pair<const StateFile*, size_t>> verified;
  for (const InnerStateSlot& slot : slots) {
    const std::vector<Piece> pieces = PiecesOf(save, slot);
    if (pieces.empty()) continue;
    InnerStatePart part{.slot = slot};
    part.values.resize(slot.count);
    int64_t done = 0;
    for (const Piece& piece : pieces) {
      if (verified.insert({piece.file, piece.index}).second)
        LH_RETURN_IF_ERROR(piece.file->Verify(piece.index));
      LH_RETURN_IF_ERROR(piece.file->Read(piece.index, piece.offset,
                                          absl::MakeSpan(part.values).subspan(done, piece.count)));
      done += piece.count;
    }
    state.parts.push_back(std::move(part));
  }
  return state;
}

absl::Status RemoveStateFiles(FileSystem& fs, const std::string& folder,
                              absl::Span<const std::string> names) {
  absl::Status result;
  for (const std::string& name : names) {
    const absl::Status removed = fs.Remove(JoinPath(folder, name));
    if (!removed.ok() && !absl::IsNotFound(removed)) result = removed;
  }
  return result;
}

}  // namespace longhaul
