#include "worker/data/windows.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "worker/data/permutation.h"

namespace longhaul {
namespace {

// The high counter selects a Philox stream of the seed. Initial parameters use another stream.
constexpr uint64_t kDataStream = 0x64617461;     // "data"
constexpr uint64_t kEpochStream = 0x65706f6368;  // "epoch"

uint64_t KeyOf(uint64_t seed, int64_t pool) {
  return Philox64(seed, kDataStream, static_cast<uint64_t>(pool));
}

}  // namespace

absl::StatusOr<Windows> Windows::Create(const Options& options) {
  LH_CHECK(options.context > 0 && options.tokens >= 0 && options.pool >= 0,
           "impossible window options");
  if (!(options.eval_fraction > 0 && options.eval_fraction <= 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("eval_fraction: %g is not in (0, 0.5]", options.eval_fraction));
  }
  const int64_t window = options.context + 1;
  LH_CHECK(options.row == 0 || (options.row == window && options.tokens % window == 0),
           "a row is a window");
  const auto wanted =
      static_cast<int64_t>(std::ceil(static_cast<double>(options.tokens) * options.eval_fraction));
  // Whole rows.
  const int64_t unit = std::max<int64_t>(1, options.row);
  const int64_t held_out = std::max((wanted + unit - 1) / unit * unit, window);
  if (options.row > 0 && options.tokens < 2 * window) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the data is too short: %d row(s) of conversations; training and held-out data each need "
        "one. Give more data, or a smaller context if they are packed",
        options.tokens / window));
  }
  if (options.tokens - held_out < window) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the data is too short: %d tokens, of which %d are held out; training and "
                        "held-out data each need context + 1 = "
                        "%d. Give more data or a smaller context",
                        options.tokens, std::min(held_out, options.tokens), window));
  }
  return Windows(options, options.tokens - held_out);
}

Windows::Windows(const Options& options, int64_t train_tokens)
    : tokens_(options.tokens),
      context_(options.context),
      train_tokens_(train_tokens),
      row_(options.row),
      key_(KeyOf(options.seed, options.pool)) {}

int64_t Windows::Train(int64_t step, int64_t sequence) const {
  const uint64_t random =
      Philox64(key_, static_cast<uint64_t>(step), static_cast<uint64_t>(sequence));
  const auto places =
      static_cast<uint64_t>(row_ > 0 ? train_tokens_ / row_ : train_tokens_ - context_);
  const auto place = static_cast<int64_t>((static_cast<unsigned __int128>(random) * places) >> 64);
  return row_ > 0 ? place * row_ : place;
}

int64_t Windows::InEpochs(int64_t number) const {
  LH_CHECK(number >= 0, "windows are counted from 0");
  const int64_t stride = row_ > 0 ? row_ : context_;
  const int64_t windows = row_ > 0 ? train_tokens_ / row_ : (train_tokens_ - 1) / context_;
  const uint64_t key = Philox64(key_, kEpochStream, static_cast<uint64_t>(number / windows));
  return stride * static_cast<int64_t>(Permute(key, windows, number % windows));
}

int64_t Windows::Eval(int64_t index, int64_t count) const {
  LH_CHECK(0 <= index && index < count, "evaluation window out of range");
  // The last place of a window, counted from train_tokens_.
  const int64_t last = tokens_ - context_ - 1 - train_tokens_;
  if (count == 1) return train_tokens_;
  const int64_t unit = std::max<int64_t>(1, row_);
  return train_tokens_ +
         unit * static_cast<int64_t>(static_cast<__int128>(last / unit) * index / (count - 1));
}

}  // namespace longhaul
