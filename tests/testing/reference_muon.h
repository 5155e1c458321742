// Muon (muon_options.h) line by line in plain loops, for one matrix, all in double. Tests compare
// the fast implementation with it.
#pragma once

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "worker/optim/muon_options.h"

namespace longhaul {

class ReferenceMuon {
 public:
  ReferenceMuon(const MuonOptions& options, int64_t rows, int64_t columns)
      : o_(options), rows_(rows), columns_(columns), m_(rows * columns) {}

  void Update(double learning_rate, absl::Span<float> w, absl::Span<const float> g) {
    for (size_t i = 0; i < m_.size(); ++i) m_[i] = o_.momentum * m_[i] + g[i];
    const std::vector<double> x = Orthogonalize();
    const double scale = MuonScale(o_.scaling, rows_, columns_);
    for (size_t i = 0; i < m_.size(); ++i) {
      w[i] = static_cast<float>((1 - learning_rate * o_.weight_decay) * w[i] -
                                learning_rate * scale * x[i]);
    }
  }

 private:
  struct Matrix {
    int64_t rows, columns;
    std::vector<double> values;
    double& at(int64_t r, int64_t c) { return values[r * columns + c]; }
    double at(int64_t r, int64_t c) const { return values[r * columns + c]; }
  };

  static Matrix Transposed(const Matrix& x) {
    Matrix t{x.columns, x.rows, std::vector<double>(x.values.size())};
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t c = 0; c < x.columns; ++c) t.at(c, r) = x.at(r, c);
    }
    return t;
  }

  static Matrix Product(const Matrix& x, const Matrix& y) {
    Matrix z{x.rows, y.columns, std::vector<double>(x.rows * y.columns)};
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t k = 0; k < x.columns; ++k) {
        for (int64_t c = 0; c < y.columns; ++c) z.at(r, c) += x.at(r, k) * y.at(k, c);
      }
    }
    return z;
  }

  std::vector<double> Orthogonalize() const {
    Matrix x{rows_, columns_, m_};
    const bool tall = rows_ > columns_;
    if (tall) x = Transposed(x);
    double squares = 0;
    for (const double value : x.values) squares += value * value;
    for (double& value : x.values) value /= std::sqrt(squares) + kMuonEps;
    for (const MuonStep& step : kMuonSteps) {
      const Matrix a = Product(x, Transposed(x)), aa = Product(a, a);
      Matrix b = a;
      for (size_t i = 0; i < b.values.size(); ++i)
        b.values[i] = step.b * a.values[i] + step.c * aa.values[i];
      const Matrix bx = Product(b, x);
      for (size_t i = 0; i < x.values.size(); ++i)
        x.values[i] = step.a * x.values[i] + bx.values[i];
    }
    return tall ? Transposed(x).values : x.values;
  }

  const MuonOptions o_;
  const int64_t rows_, columns_;
  std::vector<double> m_;
};

}  // namespace longhaul
