// A visitor of a std::variant made of lambdas.
#pragma once

namespace longhaul {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>  // clang deduces an aggregate's arguments from version 17 on.
Overloaded(Handlers...)->Overloaded<Handlers...>;

}  // namespace longhaul
