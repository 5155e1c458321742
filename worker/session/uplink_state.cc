#include "worker/session/uplink_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul::session {
namespace {

using Fragments = std::vector<std::unique_ptr<OuterFragment>>;

std::string VersionName(size_t fragment) { return absl::StrCat("uplink_version/", fragment); }

InnerStateSlot SlotOf(const FragmentMap::Piece& piece) {
  return {InnerStateKind::kUplinkError, piece.unit, piece.unit_offset, piece.elements};
}

absl::Status Take(const Fragments& fragments, const std::vector<int64_t>& versions, size_t index,
                  InnerState& state) {
  std::vector<float> owed;
  for (size_t i = 0; i < fragments.size(); ++i) {
    if (!fragments[i]->has_feedback()) continue;
    const FragmentMap& map = fragments[i]->map();
    owed.resize(map.elements());
    LH_RETURN_IF_ERROR(fragments[i]->ReadFeedback(absl::MakeSpan(owed)));
    for (const FragmentMap::Piece& piece : map.pieces()) {
      std::vector<float>& values = PartFor(SlotOf(piece), index++, state).values;
      std::copy_n(owed.begin() + piece.local_offset, piece.elements, values.begin());
    }
    state.phase.push_back({VersionName(i), static_cast<double>(versions[i])});
  }
  return absl::OkStatus();
}

absl::Status Put(const Fragments& fragments, const std::vector<int64_t>& versions,
                 const InnerState& state) {
  std::vector<float> owed;
  for (size_t i = 0; i < fragments.size(); ++i) {
    if (!fragments[i]->has_feedback() ||
        PhaseValue(state.phase, VersionName(i)) != static_cast<double>(versions[i]))
      continue;
    const FragmentMap& map = fragments[i]->map();
    owed.assign(map.elements(), 0.0f);
    for (const FragmentMap::Piece& piece : map.pieces()) {
      const auto part =
          std::find_if(state.parts.begin(), state.parts.end(),
                       [&](const InnerStatePart& part) { return part.slot == SlotOf(piece); });
      if (part == state.parts.end()) continue;
      std::copy(part->values.begin(), part->values.end(), owed.begin() + piece.local_offset);
    }
    LH_RETURN_IF_ERROR(fragments[i]->WriteFeedback(owed));
  }
  return absl::OkStatus();
}

}  // namespace

StateBeside UplinkState(const Fragments& fragments,
                        std::function<std::vector<int64_t>()> versions) {
  return {.take = [&fragments, versions](
                      size_t index,
                      InnerState& state) { return Take(fragments, versions(), index, state); },
          .slots =
              [&fragments] {
                std::vector<InnerStateSlot> slots;
                for (const auto& fragment : fragments) {
                  if (!fragment->has_feedback()) continue;
                  for (const FragmentMap::Piece& piece : fragment->map().pieces())
                    slots.push_back(SlotOf(piece));
                }
                return slots;
              },
          .put = [&fragments,
                  versions](const InnerState& state) { return Put(fragments, versions(), state); }};
}

}  // namespace longhaul::session
