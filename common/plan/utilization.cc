#include "common/plan/utilization.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace longhaul::plan {
namespace {

constexpr int kGridPoints = 50;
constexpr double kGridFirst = 1e8, kGridLast = 1e12;
constexpr double kTolerance = 5e-4;

// Sends one transfer after the other, of those that are there the one that is needed first.
class Link {
 public:
  explicit Link(double transfer_seconds) : transfer_seconds_(transfer_seconds) {}

  void Enqueue(int64_t needed_at_step, int layer, double time) {
    arriving_.push_back({{needed_at_step, layer}, time});
    ended_[{needed_at_step, layer}] = kNotYet;
  }

  // When the layer's transfer for this step has ended. Zero: there is none. What is enqueued later
  // must not be earlier.
  double Ended(int64_t step, int layer) {
    const auto transfer = ended_.find({step, layer});
    if (transfer == ended_.end()) return 0;
    while (transfer->second == kNotYet) SendNext();
    const double ended = transfer->second;
    ended_.erase(transfer);
    return ended;
  }

 private:
  // The step that needs the layer, and the layer.
  using Key = std::pair<int64_t, int>;
  static constexpr double kNotYet = -1;

  void SendNext() {
    const double begin = waiting_.empty() ? std::max(free_, arriving_[next_].second) : free_;
    for (; next_ < arriving_.size() && arriving_[next_].second <= begin; ++next_)
      waiting_.insert(arriving_[next_].first);
    free_ = begin + transfer_seconds_;
    ended_[*waiting_.begin()] = free_;
    waiting_.erase(waiting_.begin());
  }

  const double transfer_seconds_;
  // In the order of time.
  std::vector<std::pair<Key, double>> arriving_;
  size_t next_ = 0;
  std::set<Key> waiting_;
  std::map<Key, double> ended_;
  double free_ = 0;
};

}  // namespace

double Utilization(const ExchangeModel& model, double bits_per_second) {
  const int layers = model.layers;
  const int fragments = (layers + model.fragment_layers - 1) / model.fragment_layers;
  const int between = model.h / fragments;
  const int64_t skipped = std::max(model.h, 4), steps = std::max(3 * model.h, 12);
  const double pass = model.step_seconds / (3.0 * layers);
  Link link(model.parameters / layers * model.bits / bits_per_second);
  double now = 0, begun = 0;
  for (int64_t step = 0; step < steps; ++step) {
    if (step == skipped) begun = now;
    for (int layer = 0; layer < layers; ++layer)
      now = std::max(now, link.Ended(step, layer)) + pass;
    for (int layer = layers; layer-- > 0;) {
      now += 2 * pass;
      if (step % model.h == layer % fragments * between)
        link.Enqueue(step + 1 + model.tau, layer, now);
    }
  }
  return static_cast<double>(steps - skipped) * model.step_seconds / (now - begun);
}

std::vector<double> BandwidthGrid() {
  std::vector<double> grid(kGridPoints);
  for (int i = 0; i < kGridPoints; ++i)
    grid[i] = kGridFirst * std::pow(kGridLast / kGridFirst, i / (kGridPoints - 1.0));
  return grid;
}

std::optional<double> BandwidthFor(const ExchangeModel& model, double utilization) {
  for (const double bandwidth : BandwidthGrid())
    if (Utilization(model, bandwidth) >= utilization - kTolerance) return bandwidth;
  return std::nullopt;
}

}  // namespace longhaul::plan
