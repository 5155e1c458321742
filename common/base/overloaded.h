// A visitor of a std::variant made of lambdas.
#pragma once

namespace longhaul {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace longhaul
