// Rows and pairs of nodes of the files that a user gives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "worker/data/graph/number_rows.h"

namespace longhaul {

// Numbers that are read at once.
inline constexpr int64_t kPieceNumbers = 1 << 17;

// Calls use(row, values of the row) for each row. Errors: those of NumberRows and of `use`.
template <typename T, typename Use>
absl::Status ForEachRow(NumberRows& rows, const Use& use) {
  const int64_t columns = rows.columns();
  if (columns == 0) return absl::OkStatus();
  std::vector<T> values(std::max(columns, kPieceNumbers / columns * columns));
  for (int64_t row = 0;;) {
    LH_ASSIGN_OR_RETURN(const int64_t read, rows.Read(absl::MakeSpan(values)));
    if (read == 0) return absl::OkStatus();
    for (int64_t i = 0; i < read; ++i, ++row) {
      LH_RETURN_IF_ERROR(use(row, absl::MakeConstSpan(values).subspan(i * columns, columns)));
    }
  }
}

// Where a pair is in its file.
struct PairPlace {
  const NumberRows& rows;
  // Of the source.
  int64_t row = 0, column = 0;
  // The target is in the next row; otherwise in the next column.
  bool in_rows = false;

  absl::Status Error(absl::string_view what, absl::string_view hint) const {
    return rows.ErrorAt(row, column, what, hint);
  }
  absl::Status ErrorOfTarget(absl::string_view what, absl::string_view hint) const {
    return rows.ErrorAt(row + (in_rows ? 1 : 0), column + (in_rows ? 0 : 1), what, hint);
  }
};

using UsePair = absl::FunctionRef<absl::Status(const PairPlace&, int64_t source, int64_t target)>;

// Calls `use` for each pair of whole numbers: two columns, or an array (2, pairs). Errors: those of
// NumberRows and of `use`; also INVALID_ARGUMENT: another number of columns.
absl::Status ForEachNumberPair(const NumberFile& file, UsePair use);

// The same for pairs of nodes. Errors: also INVALID_ARGUMENT: a node is not from 0 to `nodes` - 1.
absl::Status ForEachPair(const NumberFile& file, int64_t nodes, UsePair use);

// The error of a node that is out of range.
absl::Status NodeOutOfRange(const NumberRows& rows, int64_t row, int64_t column, int64_t node,
                            int64_t nodes);

}  // namespace longhaul
