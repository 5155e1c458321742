// Rows of numbers from a file that a user names: .npy, CSV without a heading (also compressed with
// gzip or zstd), or an array of an .npz file. The first bytes tell which it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/graph/npy.h"

namespace longhaul {

struct NumberFile {
  std::string path;
  // Of an .npz file: the array's name. Otherwise empty.
  std::string array;
};

// Reads from the beginning to the end. Not thread-safe; blocks on the disk. Errors: NOT_FOUND: no
// such file or array. INVALID_ARGUMENT: not such a file; a number that is malformed, or not of the
// kind that is asked for; rows of different lengths; a file that was cut, or has more than its
// header says. The message names file and position; with a hint.
class NumberRows {
 public:
  static absl::StatusOr<std::unique_ptr<NumberRows>> Open(const NumberFile& file);
  // A part of a .npy array, as if all its elements from `skipped` on were a row each.
  // INVALID_ARGUMENT: also if it is CSV.
  static absl::StatusOr<std::unique_ptr<NumberRows>> OpenElements(const NumberFile& file,
                                                                  int64_t skipped,
                                                                  int64_t elements);
  virtual ~NumberRows() = default;

  // What the messages call the file.
  const std::string& name() const { return name_; }
  // Of a .npy array; none for CSV.
  const std::optional<NpyHeader>& header() const { return header_; }
  // Numbers of a row. 0: a CSV file without rows.
  int64_t columns() const { return columns_; }
  // Of a .npy array.
  std::optional<int64_t> rows() const;

  // Each reads as many whole rows as there are left, or as `out` has room for, and returns how
  // many. Whole numbers: no float array, and no "1.0" in CSV. Values beyond int64 are errors.
  virtual absl::StatusOr<int64_t> Read(absl::Span<int64_t> out) = 0;
  // NaN and infinities are read. In CSV an empty field is NaN.
  virtual absl::StatusOr<int64_t> Read(absl::Span<double> out) = 0;
  // The nearest float.
  virtual absl::StatusOr<int64_t> Read(absl::Span<float> out) = 0;

  // "PATH: line 4, column 2: WHAT" or "PATH: row 3, column 1: WHAT", both counted as people do in
  // such a file: lines and columns of CSV from 1, rows and columns of arrays from 0.
  absl::Status ErrorAt(int64_t row, int64_t column, absl::string_view what,
                       absl::string_view hint) const;

 protected:
  std::string name_;
  std::optional<NpyHeader> header_;
  int64_t columns_ = 0;
};

// Lines of a text file, compressed or not, without their ends. Calls line(number from 0, text) for
// each. INVALID_ARGUMENT: longer than 64 KiB; not UTF-8 text; errors of ByteStream.
absl::Status ForEachLine(const std::string& path,
                         absl::FunctionRef<absl::Status(int64_t, absl::string_view)> line);

// Ten lines of Python that turn a file of PyTorch into .npy.
extern const char kTorchHint[];

}  // namespace longhaul
