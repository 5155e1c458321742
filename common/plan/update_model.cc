#include "common/plan/update_model.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace longhaul {
namespace {

constexpr int kStrideMax = 16;
// The time in which links and host are busy together, and the host's rate in that time, depend on
// each other.
constexpr int kRefinements = 8;

double DramSeconds(const UpdateLoad& load, const UpdateSchedule& schedule) {
  // host_elements_beside already includes the effect of this rank's own copies.
  if (load.rates.dram_bytes <= 0 || load.ranks == 1) return 0;
  const auto host = static_cast<double>(schedule.host_elements);
  const auto interleaved = static_cast<double>(schedule.interleaved_elements);
  const auto resident = static_cast<double>(schedule.resident_elements);
  const UpdateTraffic& traffic = load.traffic;
  const double bytes = host * (traffic.dram_host + 2 * traffic.shadow_up + traffic.gradients_down) +
                       interleaved * traffic.dram_device + resident * traffic.masters_down;
  return load.ranks * bytes / load.rates.dram_bytes;
}

// The times at which each resource becomes free, while the works of an update are placed one after
// another.
class Timeline {
 public:
  Timeline(const UpdateLoad& load, double host_elements, absl::Span<const int64_t> elements,
           const UpdateSchedule& schedule)
      : load_(load), host_elements_(host_elements), elements_(elements), slots_(load.slots) {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (schedule.ways[i] == UpdateWay::kInterleaved) interleaved_.push_back(i);
    }
    while (loaded_.size() < slots_.size() && loaded_.size() < interleaved_.size()) {
      if (load.prefetched) {
        loaded_.push_back(0);
      } else {
        LoadNext();
      }
    }
  }

  void OnHost(size_t i) {
    const auto n = static_cast<double>(elements_[i]);
    gradients_ += n * load_.traffic.gradients_down / load_.rates.down_bytes;
    host_ = std::max(host_, gradients_) + n / host_elements_;
    const double shadow = n * load_.traffic.shadow_up / load_.rates.up_bytes;
    if (shadow > 0) up_ = std::max(up_, host_) + shadow;
  }
  void Interleaved(size_t i) {
    const auto n = static_cast<double>(elements_[i]);
    device_ = std::max({device_, host_, loaded_[next_]}) + n / load_.rates.device_elements;
    down_ = std::max(down_, device_) + n * load_.traffic.state / load_.rates.down_bytes;
    slots_[next_++ % slots_.size()] = down_;
    if (loaded_.size() < interleaved_.size()) LoadNext();
  }
  void Resident(size_t i) {
    const auto n = static_cast<double>(elements_[i]);
    device_ = std::max(device_, host_) + n / load_.rates.device_elements;
    down_ = std::max(down_, device_) + n * load_.traffic.masters_down / load_.rates.down_bytes;
  }
  double end() const { return std::max({host_, up_, down_, device_}); }

 private:
  void LoadNext() {
    const size_t number = loaded_.size();
    const auto n = static_cast<double>(elements_[interleaved_[number]]);
    up_ = std::max({up_, host_, slots_[number % slots_.size()]}) +
          n * load_.traffic.state / load_.rates.up_bytes;
    loaded_.push_back(up_);
  }

  const UpdateLoad& load_;
  const double host_elements_;
  const absl::Span<const int64_t> elements_;
  std::vector<size_t> interleaved_;
  // When each slot becomes free.
  std::vector<double> slots_;
  // When the state of each interleaved subgroup is on the device.
  std::vector<double> loaded_;
  // The next interleaved subgroup to load.
  size_t next_ = 0;
  double host_ = 0, up_ = 0, down_ = 0, device_ = 0, gradients_ = 0;
};

double TimelineSeconds(const UpdateLoad& load, double host_elements,
                       absl::Span<const int64_t> elements, const UpdateSchedule& schedule) {
  Timeline timeline(load, host_elements, elements, schedule);
  for (size_t i = 0; i < elements.size(); ++i) {
    switch (schedule.ways[i]) {
      case UpdateWay::kHost:
        timeline.OnHost(i);
        break;
      case UpdateWay::kInterleaved:
        timeline.Interleaved(i);
        break;
      case UpdateWay::kResident:
        timeline.Resident(i);
    }
  }
  return timeline.end();
}

// How long the links are busy: the mean of up and down.
double LinkSeconds(const UpdateLoad& load, const UpdateSchedule& schedule) {
  const UpdateTraffic& traffic = load.traffic;
  const auto host = static_cast<double>(schedule.host_elements);
  const auto interleaved = static_cast<double>(schedule.interleaved_elements);
  const auto resident = static_cast<double>(schedule.resident_elements);
  const double up = (interleaved * traffic.state + host * traffic.shadow_up) / load.rates.up_bytes;
  const double down = (interleaved * traffic.state + resident * traffic.masters_down +
                       host * traffic.gradients_down) /
                      load.rates.down_bytes;
  return (up + down) / 2;
}

}  // namespace

double PredictSeconds(const UpdateLoad& load, absl::Span<const int64_t> elements,
                      const UpdateSchedule& schedule) {
  LH_CHECK(load.slots > 0 && elements.size() == schedule.ways.size(), "another schedule");
  const UpdateRates& rates = load.rates;
  double host = rates.host_elements, seconds = 0;
  for (int i = 0; i < kRefinements; ++i) {
    seconds =
        std::max(TimelineSeconds(load, host, elements, schedule), DramSeconds(load, schedule));
    if (rates.host_elements_beside <= 0 || seconds == 0) break;
    const double busy = std::min(1.0, LinkSeconds(load, schedule) / seconds);
    host = (1 - busy) * rates.host_elements + busy * rates.host_elements_beside;
  }
  return seconds;
}

int ChooseStride(const UpdateLoad& load, absl::Span<const int64_t> elements, double device_share) {
  const auto seconds = [&](int stride) {
    return PredictSeconds(
        load, elements,
        MakeUpdateSchedule(elements, {.stride = stride, .device_share = device_share}));
  };
  int best = 0;
  double least = seconds(0);
  for (int stride = kStrideMax; stride >= 1; --stride) {
    if (const double time = seconds(stride); time < least) {
      best = stride;
      least = time;
    }
  }
  return best;
}

}  // namespace longhaul
