#include "worker/data/graph/number_pairs.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/counted.h"
#include "common/base/status_hint.h"
#include "common/graph/npy.h"

namespace longhaul {

namespace {

constexpr char kNumberNodes[] = "number nodes from 0, and give their number (--nodes)";

std::string NoSuchNode(int64_t node, int64_t nodes) {
  return absl::StrCat("the node ", node, " is not one of ", nodes, ", from 0 to ", nodes - 1);
}

}  // namespace

absl::Status NodeOutOfRange(const NumberRows& rows, int64_t row, int64_t column, int64_t node,
                            int64_t nodes) {
  return rows.ErrorAt(row, column, NoSuchNode(node, nodes), kNumberNodes);
}

absl::Status ForEachNumberPair(const NumberFile& file, UsePair use) {
  LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(file));
  const std::optional<NpyHeader>& header = rows->header();
  // The ends in two rows.
  if (header.has_value() && header->shape.size() == 2 && header->shape[1] != 2 &&
      header->shape[0] == 2) {
    const int64_t pairs = header->shape[1];
    LH_ASSIGN_OR_RETURN(const auto sources, NumberRows::OpenElements(file, 0, pairs));
    LH_ASSIGN_OR_RETURN(const auto targets, NumberRows::OpenElements(file, pairs, pairs));
    std::vector<int64_t> from(kPieceNumbers), to(kPieceNumbers);
    for (int64_t pair = 0; pair < pairs;) {
      LH_ASSIGN_OR_RETURN(const int64_t read, sources->Read(absl::MakeSpan(from)));
      LH_RETURN_IF_ERROR(targets->Read(absl::MakeSpan(to).subspan(0, read)).status());
      for (int64_t i = 0; i < read; ++i, ++pair)
        LH_RETURN_IF_ERROR(use({*rows, 0, pair, /*in_rows=*/true}, from[i], to[i]));
    }
    return absl::OkStatus();
  }
  if (rows->columns() != 2 && rows->columns() != 0) {
    return WithHint(absl::InvalidArgumentError(absl::StrCat(
                        rows->name(), ": ", header ? ShapeText(header->shape) : "",
                        header ? ", " : "", Counted(rows->columns(), "column"), ", not two")),
                    "give pairs source, target: an array (pairs, 2) or (2, pairs), or CSV");
  }
  return ForEachRow<int64_t>(*rows, [&](int64_t row, absl::Span<const int64_t> pair) {
    return use({*rows, row, 0}, pair[0], pair[1]);
  });
}

absl::Status ForEachPair(const NumberFile& file, int64_t nodes, UsePair use) {
  return ForEachNumberPair(
      file, [&](const PairPlace& at, int64_t source, int64_t target) -> absl::Status {
        if (source < 0 || source >= nodes) return at.Error(NoSuchNode(source, nodes), kNumberNodes);
        if (target < 0 || target >= nodes)
          return at.ErrorOfTarget(NoSuchNode(target, nodes), kNumberNodes);
        return use(at, source, target);
      });
}

}  // namespace longhaul
