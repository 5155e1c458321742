#include "worker/collective/gloo_exchange.h"

#include <algorithm>
#include <utility>

#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "worker/collective/rank_order_sum.h"

namespace longhaul {
namespace {

// For each peer. Two ranks alone need more to keep the line busy while they sum; more ranks have
// enough peers for that.
int SegmentsInFlight(int ranks) { return ranks <= 2 ? 4 : 2; }

// The piece number `segment` of a part, empty past its end.
Part SegmentOf(Part part, int64_t segment, int64_t segment_size) {
  const int64_t begin = std::min(segment * segment_size, part.size);
  return {part.offset + begin, std::min(segment_size, part.size - begin)};
}

int64_t SegmentCount(absl::Span<const Part> parts, int64_t segment_size) {
  int64_t largest = 0;
  for (const Part& part : parts) largest = std::max(largest, part.size);
  return CeilDiv(largest, segment_size);
}

// With two in flight: start(0) start(1) finish(0) start(2) finish(1) ...
template <typename Start, typename Finish>
absl::Status RunPipeline(int64_t segments, int in_flight, Start start, Finish finish) {
  for (int64_t s = 0; s < segments + in_flight; ++s) {
    if (s >= in_flight) LH_RETURN_IF_ERROR(finish(s - in_flight));
    if (s < segments) LH_RETURN_IF_ERROR(start(s));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GlooExchange::Swap(const std::byte* input, absl::Span<const Part> sends,
                                std::byte* output, absl::Span<const Part> receives) {
  LH_RETURN_IF_ERROR(mesh_.status());  // also when there is nothing to send
  const int in_flight = SegmentsInFlight(mesh_.size());
  std::vector<Transfers> lanes(in_flight);
  const auto start = [&](int64_t s) -> absl::Status {
    Transfers& lane = lanes[s % in_flight];
    for (int step = 1; step < mesh_.size(); ++step) {
      const int from = (mesh_.rank() - step + mesh_.size()) % mesh_.size();
      const Part piece = SegmentOf(receives[from], s, kSegmentBytes);
      LH_RETURN_IF_ERROR(StartReceive(from, s, output + piece.offset, piece.size, &lane));
    }
    for (int step = 1; step < mesh_.size(); ++step) {
      const int to = (mesh_.rank() + step) % mesh_.size();
      const Part piece = SegmentOf(sends[to], s, kSegmentBytes);
      LH_RETURN_IF_ERROR(StartSend(to, s, input + piece.offset, piece.size, &lane));
    }
    return absl::OkStatus();
  };
  const auto finish = [&](int64_t s) { return WaitAll(lanes[s % in_flight]); };
  const int64_t segments =
      std::max(SegmentCount(sends, kSegmentBytes), SegmentCount(receives, kSegmentBytes));
  return RunPipeline(segments, in_flight, start, finish);
}

template <typename T>
absl::Status GlooExchange::ReduceScatter(const T* input, absl::Span<const Part> parts, T* output) {
  LH_RETURN_IF_ERROR(mesh_.status());
  constexpr int64_t kSegment = kSegmentBytes / sizeof(T);
  const int size = mesh_.size(), rank = mesh_.rank(), in_flight = SegmentsInFlight(size);
  const Part own = parts[rank];
  // Where the peers' addends arrive: one row a rank in each lane; this rank's own row is its input.
  const int64_t row = std::min(own.size, kSegment);
  const auto scratch = std::make_unique_for_overwrite<T[]>(in_flight * size * row);
  struct Lane {
    Transfers receives, sends;
  };
  std::vector<Lane> lanes(in_flight);
  const auto addend = [&](int64_t s, int from) {
    return scratch.get() + (s % in_flight * size + from) * row;
  };

  const auto start = [&](int64_t s) -> absl::Status {
    Lane& lane = lanes[s % in_flight];
    const int64_t own_bytes = SegmentOf(own, s, kSegment).size * sizeof(T);
    for (int step = 1; step < size; ++step) {
      const int from = (rank - step + size) % size;
      LH_RETURN_IF_ERROR(StartReceive(from, s, addend(s, from), own_bytes, &lane.receives));
    }
    for (int step = 1; step < size; ++step) {
      const int to = (rank + step) % size;
      const Part piece = SegmentOf(parts[to], s, kSegment);
      LH_RETURN_IF_ERROR(
          StartSend(to, s, input + piece.offset, piece.size * sizeof(T), &lane.sends));
    }
    return absl::OkStatus();
  };
  const auto finish = [&](int64_t s) -> absl::Status {
    Lane& lane = lanes[s % in_flight];
    LH_RETURN_IF_ERROR(WaitAll(lane.receives));
    const Part piece = SegmentOf(own, s, kSegment);
    std::vector<const T*> sources(size);
    for (int r = 0; r < size; ++r) sources[r] = r == rank ? input + piece.offset : addend(s, r);
    RankOrderSum<T>(sources, output + (piece.offset - own.offset), piece.size);
    return WaitAll(lane.sends);
  };
  return RunPipeline(SegmentCount(parts, kSegment), in_flight, start, finish);
}

template absl::Status GlooExchange::ReduceScatter(const float*, absl::Span<const Part>, float*);
template absl::Status GlooExchange::ReduceScatter(const double*, absl::Span<const Part>, double*);

// 35 bits of the operation, 21 of the size, 8 of the segment. The size is there because gloo ends
// the process when a message is longer than its receive: ranks that disagree on sizes wait for
// different slots until the deadline.
uint64_t GlooExchange::Slot(int64_t segment, int64_t bytes) const {
  static_assert(kSegmentBytes < 1 << 21);
  return operation_ << 29 | static_cast<uint64_t>(bytes) << 8 | (segment & 0xff);
}

absl::Status GlooExchange::StartSend(int peer, int64_t segment, const void* data, int64_t bytes,
                                     Transfers* transfers) {
  if (bytes == 0) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(auto transfer, mesh_.Send(peer, Slot(segment, bytes), data, bytes));
  transfers->push_back(std::move(transfer));
  return absl::OkStatus();
}

absl::Status GlooExchange::StartReceive(int peer, int64_t segment, void* data, int64_t bytes,
                                        Transfers* transfers) {
  if (bytes == 0) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(auto transfer, mesh_.Receive(peer, Slot(segment, bytes), data, bytes));
  transfers->push_back(std::move(transfer));
  return absl::OkStatus();
}

absl::Status GlooExchange::WaitAll(Transfers& transfers) {
  for (const auto& transfer : transfers) LH_RETURN_IF_ERROR(mesh_.Wait(*transfer, deadline_));
  transfers.clear();
  return absl::OkStatus();
}

}  // namespace longhaul
