// A visitor of a std::variant made of lambdas.
#pragma once

namespace longhaul {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
// Needed before clang 17, which does not deduce the template arguments of an aggregate.
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace longhaul
