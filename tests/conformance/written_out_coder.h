// The definition of a contribution, written out over the whole fragment: u = (outer - live) + decay
// e, coded segment by segment, and e = what the coding lost, if the round counts. With the coders
// that are compared with it, it shares the codec alone, which has a suite of its own.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/codec.h"
#include "common/schedule/round_kind.h"
#include "worker/session/fragment_map.h"

namespace longhaul::session {

struct WrittenOutContribution {
  absl::Status status;
  std::vector<SegmentRef> segments;
  std::vector<uint8_t> payload;
  double nmse = 0, feedback_norm = 0;
};

class WrittenOutCoder {
 public:
  // These outlive the object. `map` says which blocks are owned.
  WrittenOutCoder(const FragmentMap& map, const Codec& up, const Codec& exact, bool feedback)
      : map_(map), up_(up), exact_(exact), feedback_(feedback), e_(map.layout().elements) {}

  // `units`: the live parameters, by unit.
  void TakeSnapshot(const std::vector<std::vector<float>>& units) {
    live_.assign(map_.layout().elements, 0);
    for (const UnitSpan& unit : map_.layout().units) {
      for (int64_t i = 0; i < unit.elements; ++i) live_[unit.offset + i] = units[unit.unit][i];
    }
  }

  // `outer`: of the owned blocks alone, one after another.
  WrittenOutContribution Code(RoundKind kind, uint64_t noise_key, const std::vector<float>& outer) {
    const bool seed = kind == RoundKind::kSeed, owes = feedback_ && !seed;
    const Codec& codec = seed ? exact_ : up_;
    WrittenOutContribution result{.segments = map_.segments()};
    double error = 0, signal = 0;
    std::vector<float> next = e_;
    size_t local = 0;
    for (SegmentRef& segment : result.segments) {
      const int64_t first = segment.first_block * kBlockElements;
      std::vector<float> u(segment.elements), lost(segment.elements);
      for (int64_t i = 0; i < segment.elements; ++i, ++local) {
        u[i] = seed ? live_[first + i] : outer[local] - live_[first + i];
        if (owes) u[i] += codec.options().feedback_decay * e_[first + i];
      }
      std::vector<uint8_t> payload(codec.PayloadBytes(segment.elements));
      const auto coded = codec.Encode({u}, absl::MakeSpan(lost), absl::MakeSpan(payload),
                                      {.key = noise_key, .first_block = segment.first_block});
      if (!coded.ok()) return {.status = coded.status()};
      segment.base_exponent = coded->base_exponent;
      error += coded->error_energy;
      signal += coded->signal_energy;
      std::copy(lost.begin(), lost.end(), next.begin() + first);
      result.payload.insert(result.payload.end(), payload.begin(), payload.end());
    }
    result.nmse = signal > 0 ? error / signal : 0;
    if (owes) {
      result.feedback_norm = std::sqrt(error);
      next_ = std::move(next);
    }
    return result;
  }

  void Commit(bool contributed) {
    if (contributed && !next_.empty()) e_ = next_;
    next_.clear();
  }
  void Reset() { e_.assign(e_.size(), 0); }

  // Of the owned blocks, one after another.
  std::vector<float> ReadFeedback() const {
    std::vector<float> owed;
    for (const SegmentRef& segment : map_.segments()) {
      const auto first = e_.begin() + segment.first_block * kBlockElements;
      owed.insert(owed.end(), first, first + segment.elements);
    }
    return owed;
  }
  void WriteFeedback(const std::vector<float>& owed) {
    size_t local = 0;
    for (const SegmentRef& segment : map_.segments()) {
      for (int64_t i = 0; i < segment.elements; ++i)
        e_[segment.first_block * kBlockElements + i] = owed[local++];
    }
  }

 private:
  const FragmentMap& map_;
  const Codec& up_;
  const Codec& exact_;
  const bool feedback_;
  // All of the fragment.
  std::vector<float> live_, e_;
  // e, if the round that was coded last counts. Empty: there is none.
  std::vector<float> next_;
};

}  // namespace longhaul::session
