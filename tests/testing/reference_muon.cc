#include "tests/testing/reference_muon.h"

#include <cmath>

namespace longhaul {
namespace {

struct ReferenceMatrix {
  int64_t rows, columns;
  std::vector<double> values;
  double& at(int64_t r, int64_t c) { return values[r * columns + c]; }
  double at(int64_t r, int64_t c) const { return values[r * columns + c]; }
};

ReferenceMatrix Transposed(const ReferenceMatrix& x) {
  ReferenceMatrix t{x.columns, x.rows, std::vector<double>(x.values.size())};
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.columns; ++c) t.at(c, r) = x.at(r, c);
  }
  return t;
}

ReferenceMatrix Product(const ReferenceMatrix& x, const ReferenceMatrix& y) {
  ReferenceMatrix z{x.rows, y.columns, std::vector<double>(x.rows * y.columns)};
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t k = 0; k < x.columns; ++k) {
      for (int64_t c = 0; c < y.columns; ++c) z.at(r, c) += x.at(r, k) * y.at(k, c);
    }
  }
  return z;
}

}  // namespace

void ReferenceMuon::Update(double learning_rate, absl::Span<float> w, absl::Span<const float> g) {
  for (size_t i = 0; i < m_.size(); ++i) m_[i] = o_.momentum * m_[i] + g[i];
  const std::vector<double> x = Orthogonalize();
  const double scale = MuonScale(o_.scaling, rows_, columns_);
  for (size_t i = 0; i < m_.size(); ++i) {
    w[i] = static_cast<float>((1 - learning_rate * o_.weight_decay) * w[i] -
                              learning_rate * scale * x[i]);
  }
}

std::vector<double> ReferenceMuon::Orthogonalize() const {
  ReferenceMatrix x{rows_, columns_, m_};
  const bool tall = rows_ > columns_;
  if (tall) x = Transposed(x);
  double squares = 0;
  for (const double value : x.values) squares += value * value;
  for (double& value : x.values) value /= std::sqrt(squares) + kMuonEps;
  for (const MuonStep& step : kMuonSteps) {
    const ReferenceMatrix a = Product(x, Transposed(x)), aa = Product(a, a);
    ReferenceMatrix b = a;
    for (size_t i = 0; i < b.values.size(); ++i)
      b.values[i] = step.b * a.values[i] + step.c * aa.values[i];
    const ReferenceMatrix bx = Product(b, x);
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = step.a * x.values[i] + bx.values[i];
  }
  return tall ? Transposed(x).values : x.values;
}

}  // namespace longhaul
