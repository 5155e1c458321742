#include "common/metrics/registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "prometheus/text_serializer.h"

namespace longhaul {
namespace {

// Checks for longhaul_<module>_<noun>..., with at least three words.
bool IsMetricName(absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  };
  return absl::StartsWith(name, "longhaul_") && std::all_of(name.begin(), name.end(), allowed) &&
         std::count(name.begin(), name.end(), '_') >= 2 && !absl::EndsWith(name, "_");
}

class ReadGauge : public prometheus::Collectable {
 public:
  ReadGauge(std::string name, std::string help, std::function<std::optional<double>()> read)
      : name_(std::move(name)), help_(std::move(help)), read_(std::move(read)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::optional<double> value = read_();
    if (!value.has_value()) return {};
    prometheus::ClientMetric metric;
    metric.gauge.value = *value;
    return {{name_, help_, prometheus::MetricType::Gauge, {metric}}};
  }

 private:
  const std::string name_, help_;
  const std::function<std::optional<double>()> read_;
};

class ReadCounter : public prometheus::Collectable {
 public:
  ReadCounter(std::string name, std::string help, std::function<double()> read)
      : name_(std::move(name)), help_(std::move(help)), read_(std::move(read)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::ClientMetric metric;
    metric.counter.value = read_();
    return {{name_, help_, prometheus::MetricType::Counter, {metric}}};
  }

 private:
  const std::string name_, help_;
  const std::function<double()> read_;
};

}  // namespace

CounterFamily& MetricRegistry::Counter(const std::string& name, const std::string& help) {
  LH_CHECK(IsMetricName(name) && absl::EndsWith(name, "_total"), name.c_str());
  absl::MutexLock lock(&mutex_);
  auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  counters_.push_back(std::make_unique<CounterFamily>(family, std::vector<double>(), series_max_));
  return *counters_.back();
}

GaugeFamily& MetricRegistry::Gauge(const std::string& name, const std::string& help) {
  LH_CHECK(IsMetricName(name) && !absl::EndsWith(name, "_total"), name.c_str());
  absl::MutexLock lock(&mutex_);
  auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
  gauges_.push_back(std::make_unique<GaugeFamily>(family, std::vector<double>(), series_max_));
  return *gauges_.back();
}

void MetricRegistry::Gauge(const std::string& name, const std::string& help,
                           std::function<std::optional<double>()> read) {
  LH_CHECK(IsMetricName(name) && !absl::EndsWith(name, "_total"), name.c_str());
  Add(std::make_unique<ReadGauge>(name, help, std::move(read)));
}

void MetricRegistry::Counter(const std::string& name, const std::string& help,
                             std::function<double()> read) {
  LH_CHECK(IsMetricName(name) && absl::EndsWith(name, "_total"), name.c_str());
  Add(std::make_unique<ReadCounter>(name, help, std::move(read)));
}

HistogramFamily& MetricRegistry::Histogram(const std::string& name, const std::string& help,
                                           std::vector<double> buckets) {
  LH_CHECK(IsMetricName(name) && !absl::EndsWith(name, "_total"), name.c_str());
  LH_CHECK(std::is_sorted(buckets.begin(), buckets.end()), name.c_str());
  absl::MutexLock lock(&mutex_);
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
  histograms_.push_back(std::make_unique<HistogramFamily>(family, std::move(buckets), series_max_));
  return *histograms_.back();
}

void MetricRegistry::Add(std::unique_ptr<prometheus::Collectable> collectable) {
  absl::MutexLock lock(&mutex_);
  collectables_.push_back(std::move(collectable));
}

std::string MetricRegistry::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  absl::MutexLock lock(&mutex_);
  for (const auto& collectable : collectables_) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    std::move(more.begin(), more.end(), std::back_inserter(families));
  }
  return prometheus::TextSerializer().Serialize(families);
}

void AddMetricsPage(Pages& pages, const MetricRegistry& registry) {
  pages.Add("/metrics", [&registry](const PageRequest&) {
    return Page{.type = "text/plain; version=0.0.4; charset=utf-8", .body = registry.Text()};
  });
}

}  // namespace longhaul
