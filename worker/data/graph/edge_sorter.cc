#include "worker/data/graph/edge_sorter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <utility>

#include "common/base/status_macros.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

constexpr int kDigitBits = 11;
constexpr int64_t kRunCapacityMin = 16;
// Keys that Merge passes on at once.
constexpr size_t kMergedPiece = 1 << 15;

// One pass of a radix sort, stable.
void SortByDigit(int shift, absl::Span<const uint64_t> from, uint64_t* to) {
  constexpr uint64_t kMask = (1 << kDigitBits) - 1;
  std::array<int64_t, kMask + 1> begins = {};
  for (const uint64_t key : from) ++begins[key >> shift & kMask];
  int64_t sum = 0;
  for (int64_t& begin : begins) sum += std::exchange(begin, sum);
  for (const uint64_t key : from) to[begins[key >> shift & kMask]++] = key;
}

// The keys of a run, read in pieces.
class RunReader {
 public:
  RunReader(const File* file, int64_t begin, int64_t keys, int64_t piece)
      : file_(file), at_(begin), left_(keys), buffer_(std::min(keys, piece)) {}

  // Requires that a key is left.
  absl::Status Next(uint64_t& key) {
    if (next_ == filled_) {
      filled_ = std::min<int64_t>(left_, static_cast<int64_t>(buffer_.size()));
      const auto bytes = static_cast<size_t>(filled_) * sizeof(uint64_t);
      LH_RETURN_IF_ERROR(file_->ReadExactly(at_, {reinterpret_cast<char*>(buffer_.data()), bytes}));
      at_ += static_cast<int64_t>(bytes);
      next_ = 0;
    }
    key = buffer_[next_++];
    --left_;
    return absl::OkStatus();
  }
  bool ended() const { return left_ == 0; }

 private:
  const File* file_;
  int64_t at_, left_;
  std::vector<uint64_t> buffer_;
  int64_t next_ = 0, filled_ = 0;
};

}  // namespace

EdgeSorter::EdgeSorter(FileSystem* fs, const Options& options)
    : fs_(fs),
      options_(options),
      capacity_(std::max<int64_t>(options.memory_bytes / 2 / sizeof(uint64_t), kRunCapacityMin)) {}

void EdgeSorter::Grow() {
  keys_.resize(std::min<int64_t>(capacity_, std::max<int64_t>(2 * count_, 1 << 16)));
}

void EdgeSorter::SortBuffer() {
  scratch_.resize(keys_.size());
  const int bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(options_.nodes - 1, 1)));
  for (const int half : {0, 32}) {
    for (int shift = half; shift < half + bits; shift += kDigitBits) {
      SortByDigit(shift, absl::MakeConstSpan(keys_).subspan(0, count_), scratch_.data());
      std::swap(keys_, scratch_);
    }
  }
  if (options_.keep_duplicates) return;
  const int64_t distinct = std::unique(keys_.begin(), keys_.begin() + count_) - keys_.begin();
  merged_ += count_ - distinct;
  count_ = distinct;
}

absl::Status EdgeSorter::EndRun() {
  SortBuffer();
  if (file_ == nullptr) {
    LH_ASSIGN_OR_RETURN(file_, fs_->Create(options_.path));
  }
  const int64_t begin = runs_.empty() ? 0 : runs_.back().begin + 8 * runs_.back().keys;
  LH_RETURN_IF_ERROR(file_->WriteAt(
      begin, {reinterpret_cast<const char*>(keys_.data()), static_cast<size_t>(count_) * 8}));
  runs_.push_back({begin, count_});
  count_ = 0;
  return absl::OkStatus();
}

absl::Status EdgeSorter::Merge(absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> use) {
  if (runs_.empty()) {
    SortBuffer();
    return use(absl::MakeConstSpan(keys_).subspan(0, count_));
  }
  if (count_ > 0) LH_RETURN_IF_ERROR(EndRun());
  keys_ = scratch_ = {};
  const auto runs = static_cast<int64_t>(runs_.size());
  const int64_t piece = std::clamp<int64_t>(2 * capacity_ / runs, 512, 1 << 17);
  std::vector<RunReader> readers;
  using Head = std::pair<uint64_t, int64_t>;
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads;
  for (const Run& run : runs_) {
    readers.emplace_back(file_.get(), run.begin, run.keys, piece);
    uint64_t key = 0;
    LH_RETURN_IF_ERROR(readers.back().Next(key));
    heads.emplace(key, static_cast<int64_t>(readers.size()) - 1);
  }
  std::vector<uint64_t> out;
  // No key of an edge without equal ends.
  uint64_t before = ~uint64_t{0};
  while (!heads.empty()) {
    const auto [key, run] = heads.top();
    heads.pop();
    if (key == before && !options_.keep_duplicates) {
      ++merged_;
    } else {
      out.push_back(key);
      before = key;
    }
    if (!readers[run].ended()) {
      uint64_t next = 0;
      LH_RETURN_IF_ERROR(readers[run].Next(next));
      heads.emplace(next, run);
    }
    if (out.size() == kMergedPiece || heads.empty()) {
      LH_RETURN_IF_ERROR(use(out));
      out.clear();
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
