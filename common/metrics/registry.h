// The metrics of one program for Prometheus. A thin layer over prometheus-cpp: it checks names, and
// bounds the number of series of a family, so that labels from outside cannot fill the memory.
//
// Names have the form longhaul_<module>_<noun>_<unit>, with base units. Counters end in _total.
// Metrics are declared beside the code that counts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/http/pages.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace longhaul {

using MetricLabels = std::map<std::string, std::string>;

// Series with one name and different values of their labels. Thread-safe. Metric is
// prometheus::Counter, Gauge or Histogram.
template <typename Metric>
class MetricFamily {
 public:
  MetricFamily(prometheus::Family<Metric>& family, std::vector<double> buckets, int series_max)
      : family_(family), buckets_(std::move(buckets)), series_max_(series_max) {}

  // The series with these labels, made if it is new. If there are series_max already, no new one is
  // made: the series whose labels are all "other" is returned instead. The reference is valid until
  // Remove of the same labels.
  Metric& With(const MetricLabels& labels = {}) {
    absl::MutexLock lock(&mutex_);
    if (const auto found = series_.find(labels); found != series_.end()) return *found->second;
    if (static_cast<int>(series_.size()) < series_max_) return *(series_[labels] = &Add(labels));
    MetricLabels other = labels;
    for (auto& [name, value] : other) value = "other";
    return Add(other);
  }

  // Ends the series, for example when its pool has left. Does nothing if there is none.
  void Remove(const MetricLabels& labels) {
    absl::MutexLock lock(&mutex_);
    const auto found = series_.find(labels);
    if (found == series_.end()) return;
    family_.Remove(found->second);
    series_.erase(found);
  }

  // Ends all series whose label `name` has this value, for example when a job has ended.
  void RemoveWhere(const std::string& name, const std::string& value) {
    absl::MutexLock lock(&mutex_);
    absl::erase_if(series_, [&](const auto& series) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto label = series.first.find(name);
      if (label == series.first.end() || label->second != value) return false;
      family_.Remove(series.second);
      return true;
    });
  }

 private:
  Metric& Add(const MetricLabels& labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if constexpr (std::is_same_v<Metric, prometheus::Histogram>) {
      return family_.Add(labels, buckets_);
    } else {
      return family_.Add(labels);
    }
  }

  absl::Mutex mutex_;
  prometheus::Family<Metric>& family_;
  const std::vector<double> buckets_;
  const int series_max_;
  absl::flat_hash_map<MetricLabels, Metric*> series_ ABSL_GUARDED_BY(mutex_);
};

using CounterFamily = MetricFamily<prometheus::Counter>;
using GaugeFamily = MetricFamily<prometheus::Gauge>;
using HistogramFamily = MetricFamily<prometheus::Histogram>;

// The label of a job's name. It is not "job", which is Prometheus's own label of the scraped
// target: Prometheus would rename ours.
inline constexpr char kJobLabel[] = "job_name";

// For a sum that is kept elsewhere and never decreases.
inline void RaiseTo(prometheus::Counter& counter, double value) {
  if (value > counter.Value()) counter.Increment(value - counter.Value());
}

// Thread-safe. Families live as long as the registry.
class MetricRegistry {
 public:
  // series_max is the limit of each family.
  explicit MetricRegistry(int series_max = 5000) : series_max_(series_max) {}

  // A name is registered once. A name that breaks the rule above is our own mistake (LH_CHECK).
  CounterFamily& Counter(const std::string& name, const std::string& help);
  GaugeFamily& Gauge(const std::string& name, const std::string& help);
  // A gauge without labels that is read when it is shown, on any thread. It is not shown while
  // `read` returns nothing.
  void Gauge(const std::string& name, const std::string& help,
             std::function<std::optional<double>()> read);
  // Likewise a counter.
  void Counter(const std::string& name, const std::string& help, std::function<double()> read);
  // Upper bounds of the buckets, ascending. A last bucket for all larger values is added.
  HistogramFamily& Histogram(const std::string& name, const std::string& help,
                             std::vector<double> buckets);

  // Adds series that each call of Text reads again, from any thread.
  void Add(std::unique_ptr<prometheus::Collectable> collectable);

  // All series in Prometheus's text format.
  std::string Text() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const int series_max_;
  prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Throw};
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<prometheus::Collectable>> collectables_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<CounterFamily>> counters_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<GaugeFamily>> gauges_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<HistogramFamily>> histograms_ ABSL_GUARDED_BY(mutex_);
};

// Serves /metrics; the registry outlives the server.
void AddMetricsPage(Pages& pages, const MetricRegistry& registry);

}  // namespace longhaul
