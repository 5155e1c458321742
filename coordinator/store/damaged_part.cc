#include "coordinator/store/damaged_part.h"

#include <algorithm>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "coordinator/store/ordered_tiles.h"
#include "coordinator/store/wire.h"

namespace longhaul {
namespace {

constexpr char kDamagedPartUrl[] = "longhaul.store.damaged_part";
constexpr int64_t kVerifyBytes = 1 << 20;

absl::Status DamagedError(const Log& log, const StoredPart& part, absl::string_view why) {
  const PartInfo& info = part.info;
  absl::Status status = absl::DataLossError(
      absl::StrCat(log.Describe(part.body()), " is damaged: the contribution of pool ", info.pool,
                   " to version ", info.round.version, " of fragment ", info.round.fragment,
                   " (frame ", part.sequence, "): ", why));
  WireWriter payload;
  payload.U32(static_cast<uint32_t>(info.round.fragment));
  payload.U64(static_cast<uint64_t>(info.round.version));
  payload.U32(static_cast<uint32_t>(info.round.kind));
  payload.String(info.pool);
  payload.String(info.incarnation);
  payload.U64(part.sequence);
  status.SetPayload(kDamagedPartUrl, absl::Cord(payload.bytes()));
  return status;
}

absl::Status VerifyPart(const Log& log, const StoredPart& part, std::vector<uint8_t>& buffer) {
  Digester digester;
  LogPosition at = part.body();
  for (int64_t left = part.body_bytes; left > 0; left -= static_cast<int64_t>(buffer.size())) {
    buffer.resize(std::min(kVerifyBytes, left));
    const absl::Status read = log.Read(at, absl::MakeSpan(buffer));
    if (absl::IsDataLoss(read)) return DamagedError(log, part, read.message());
    LH_RETURN_IF_ERROR(read);
    digester.Update({reinterpret_cast<const char*>(buffer.data()), buffer.size()});
    at.offset += static_cast<int64_t>(buffer.size());
  }
  if (digester.Value() == part.body_digest) return absl::OkStatus();
  return DamagedError(log, part, "its bytes are not those that were logged");
}

}  // namespace

std::optional<DamagedPart> DamagedPartOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kDamagedPartUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string bytes(*payload);
  WireReader reader(bytes);
  DamagedPart part;
  part.round.fragment = static_cast<int>(reader.U32());
  part.round.version = static_cast<int64_t>(reader.U64());
  part.round.kind = static_cast<RoundKind>(reader.U32());
  part.pool = std::string(reader.String());
  part.incarnation = std::string(reader.String());
  part.sequence = reader.U64();
  if (!reader.ok()) return std::nullopt;
  return part;
}

absl::Status VerifyParts(const Log& log, absl::Span<const Contribution> contributions,
                         int threads) {
  std::vector<const StoredPart*> parts;
  for (const Contribution& contribution : contributions) {
    for (const StoredPart& part : contribution.parts) parts.push_back(&part);
  }
  std::vector<std::vector<uint8_t>> buffers(threads);
  return ForTilesInOrder(
      static_cast<int64_t>(parts.size()), threads,
      [&](int64_t part, int worker) { return VerifyPart(log, *parts[part], buffers[worker]); },
      [](int64_t, int) { return absl::OkStatus(); });
}

}  // namespace longhaul
