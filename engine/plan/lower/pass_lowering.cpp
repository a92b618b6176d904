#include "engine/plan/lower/pass_lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <utility>

#include "engine/model/graph/data_array.h"
#include "engine/plan/lower/regions.h"

namespace strata {
namespace {

Operation operation_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return Operation::forward;
    case Pass::input_gradient:
      return Operation::input_gradient;
    case Pass::weight_gradient:
      return Operation::weight_gradient;
    default:
      return Operation::backward;
  }
}

/// In the order in which instructions have them.
std::span<const Region> regions_of(Pass pass) {
  static constexpr auto kForward = std::to_array<Region>(
      {Region::parameter, Region::frozen, Region::input, Region::shared_parameter, Region::shared_frozen,
       Region::data_0, Region::data_1, Region::data_2, Region::data_3, Region::losses, Region::logits,
       Region::output, Region::saved, Region::tally, Region::constants, Region::ring_0, Region::ring_1,
       Region::ring_2, Region::ring_3});
  static constexpr auto kBackward =
      std::to_array<Region>({Region::parameter,      Region::frozen,          Region::input,
                             Region::input_gradient, Region::data_0,          Region::data_1,
                             Region::data_2,         Region::data_3,          Region::losses,
                             Region::loss_scale,     Region::output_gradient, Region::saved,
                             Region::pending,        Region::gradient,        Region::shared_parameter,
                             Region::shared_frozen,  Region::shared_gradient, Region::tally,
                             Region::constants,      Region::ring_0,          Region::ring_1,
                             Region::ring_2,         Region::ring_3});
  return pass == Pass::forward ? std::span<const Region>(kForward) : kBackward;
}

/// Whether a segment or an exchange in front of a segment touches the region; of the exchanges right in
/// front of it, those before this one.
bool is_touched_before(Region region, const UnitPass& pass, std::size_t segment,
                       const PlacedExchange* exchange = nullptr) {
  const auto touches = [&](const auto& other) { return other.touches(region); };
  const auto end = std::ranges::find_if(pass.exchanges(), [&](const PlacedExchange& other) {
    return &other == exchange || other.before > segment;
  });
  return std::any_of(pass.exchanges().begin(), end, touches) ||
         std::ranges::any_of(std::span(pass.segments()).first(segment), touches);
}
bool is_touched_behind(Region region, const UnitPass& pass, std::size_t segment) {
  return std::ranges::any_of(std::span(pass.segments()).subspan(segment + 1),
                             [&](const Segment& other) { return other.touches(region); }) ||
         std::ranges::any_of(pass.exchanges(), [&](const PlacedExchange& exchange) {
           return exchange.before > segment && exchange.touches(region);
         });
}

/// How a segment of a pass touches a region.
Access access_to(Region region, Pass kind, const UnitPass& pass, std::size_t segment) {
  const auto now = pass.segments().begin() + static_cast<std::ptrdiff_t>(segment);
  if (region == Region::gradient || region == Region::shared_gradient) return Access::update;
  const bool is_found = (region == Region::saved && kind != Pass::forward) ||
                        (region == Region::pending && kind == Pass::weight_gradient);
  if (is_found) {  // it may be used up, and then nobody needs it
    const bool is_last = kind != Pass::input_gradient && !is_touched_behind(region, pass, segment);
    return now->writes(region) && !is_last ? Access::update : Access::read;
  }
  if (!now->writes(region)) return Access::read;
  if (region == Region::tally || is_ring(region)) return now->reads(region) ? Access::update : Access::write;
  return is_touched_before(region, pass, segment) ? Access::update : Access::write;
}

}  // namespace

void PassLowering::run(std::span<const Visit> visits, const UnitPass& pass, std::size_t level) {
  constexpr std::size_t kAtOnce = 2;
  std::deque<Turn> turns;
  std::size_t begun = 0;
  const auto begin = [&] {
    Turn turn{visits[begun], memory_of(visits[begun], pass)};
    ++begun;
    exchange_before(turn, pass);
    return turn;
  };
  while (begun < std::min(kAtOnce, visits.size())) turns.push_back(begin());
  while (!turns.empty()) {
    Turn turn = std::move(turns.front());
    turns.pop_front();
    run_turn(turn, pass, level);
    if (turn.segment < pass.segments().size()) {
      turns.push_back(std::move(turn));
    } else if (begun < visits.size()) {
      // At once, so that the other's values have two segments' time; last, if it waits for some itself.
      Turn next = begin();
      const bool is_in_order = turns.empty() || turns.front().segment > 0;
      if (next.exchange == 0 && is_in_order) {
        turns.push_front(std::move(next));
      } else {
        turns.push_back(std::move(next));
      }
    }
  }
}

PassLowering::VisitMemory PassLowering::memory_of(const Visit& visit, const UnitPass& pass) {
  const auto make = [&](const std::string& what, Bytes bytes) {
    Value value = make_value(fmt::format("{}/{}", unit(visit.unit).name, what), BufferKind::workspace,
                             ElementType::byte, bytes);
    value.scratch = true;
    return value;
  };
  VisitMemory memory{make("workspace", pass.workspace_bytes())};
  const bool is_cut = pass.segments().size() > 1 || !pass.exchanges().empty();
  if (is_cut) builder_.make_resident(memory.workspace, false);
  for (std::size_t i = 0; i < kRings; ++i) {
    memory.rings[i] = make(fmt::format("ring[{}]", i), pass.ring_bytes(i));
    if (pass.ring_bytes(i) > 0) builder_.make_resident(memory.rings[i], false);
  }
  return memory;
}

void PassLowering::run_turn(Turn& turn, const UnitPass& pass, std::size_t level) {
  do {
    if (turn.segment < pass.segments().size())
      run_segment(turn.visit, pass, level, turn.segment++, turn.memory);
  } while (exchange_before(turn, pass));
}

bool PassLowering::exchange_before(Turn& turn, const UnitPass& pass) {
  bool is_in_loop = false;
  for (; turn.exchange < pass.exchanges().size(); ++turn.exchange) {
    const PlacedExchange& next = pass.exchanges()[turn.exchange];
    if (next.before != turn.segment) break;
    exchange(turn.visit, pass, next, turn.memory);
    is_in_loop = next.is_in_loop;
  }
  return is_in_loop;
}

void PassLowering::run_segment(const Visit& visit, const UnitPass& pass, std::size_t level,
                               std::size_t number, VisitMemory& memory) {
  const Segment& segment = pass.segments()[number];
  std::vector<Use> uses;
  for (const Region region : regions_of(visit.pass)) {
    if (!segment.touches(region)) continue;
    Value& value = value_of(region, visit, memory);
    const Access access = access_to(region, visit.pass, pass, number);
    uses.push_back({role_of(region), &value, std::exchange(value.begins, false) ? Access::write : access});
  }
  const bool begins = number == 0 && !is_touched_before(Region::workspace, pass, 0);
  uses.push_back({Role::workspace, &memory.workspace, begins ? Access::write : Access::update});
  builder_.on_device({.operation = operation_of(visit.pass),
                      .unit = visit.unit,
                      .microbatch = visit.microbatch,
                      .flops = segment.flops(),
                      .work = builder_.program().works.add(segment.work()),
                      .saved_level = static_cast<std::int32_t>(level),
                      .segment = static_cast<std::int32_t>(number)},
                     uses);
}

void PassLowering::exchange(const Visit& visit, const UnitPass& pass, const PlacedExchange& exchange,
                            VisitMemory& memory) {
  const auto use = [&](Role role, const Segment::PlacedOperand& tensor, Access access) {
    return Use{role, &value_of(tensor.region, visit, memory), access,
               Use::Part{element_type(tensor.size.dtype), tensor.size.elements(), tensor.offset}};
  };
  const Segment::PlacedOperand &source = exchange.source, &destination = exchange.destination;
  if (exchange.kind == ExchangeKind::all_reduce) {
    const Use sum = use(role_of(source.region), source, Access::update);
    return builder_.add_up(exchange.shared == SharedBy::sequence ? DataGroup::context : DataGroup::tensor,
                           visit.unit, visit.microbatch, sum.role, *sum.value, *sum.part);
  }
  if (exchange.kind == ExchangeKind::ring_shift)
    return builder_.ring_shift(visit.unit, visit.microbatch,
                               use(role_of(source.region), source, Access::read),
                               use(role_of(destination.region), destination, Access::write));
  const bool is_begun = is_touched_before(destination.region, pass, exchange.before, &exchange) ||
                        source.region == destination.region;
  builder_.gather_or_scatter(
      exchange.kind == ExchangeKind::all_gather ? Operation::all_gather : Operation::reduce_scatter,
      visit.unit, visit.microbatch,
      {use(Role::source, source, Access::read),
       use(Role::destination, destination, is_begun ? Access::update : Access::write)});
}

Value& PassLowering::value_of(Region region, const Visit& visit, VisitMemory& memory) {
  if (region == Region::workspace) return memory.workspace;
  return is_ring(region) ? memory.rings[ring_number(region)] : value_of(region, visit);
}

Value& PassLowering::value_of(Region region, const Visit& visit) {
  const std::int32_t u = visit.unit;
  const auto mb = static_cast<std::size_t>(visit.microbatch);
  UnitValues& values = of_unit(u);
  switch (region) {
    case Region::parameter:
      return values.parameter_of(visit.stash).whole;
    case Region::shared_parameter:
      return of_unit(unit(u).shares).parameter_of(visit.stash).whole;
    case Region::frozen:
      return values.frozen.whole;
    case Region::shared_frozen:
      return of_unit(unit(u).shares).frozen.whole;
    case Region::gradient:
      return values.gradient;
    case Region::shared_gradient:
      return of_unit(unit(u).shares).gradient;
    case Region::input:
      return values.input[mb];
    case Region::output:
      return of_unit(u + 1).input[mb];
    case Region::output_gradient:
      return of_unit(u + 1).input_gradient[mb];
    case Region::input_gradient:
      return values.input_gradient[mb];
    case Region::saved:
      return values.saved[mb];
    case Region::pending:
      return values.pending[mb];
    case Region::constants:
      return step_.constants;
    case Region::data_0:
    case Region::data_1:
    case Region::data_2:
    case Region::data_3:
      return step_.data[data_number(region)][mb];
    case Region::losses:
      return step_.losses[mb];
    case Region::logits:
      return step_.logits;
    case Region::loss_scale:
      return step_.loss_scale;
    case Region::tally:
      return step_.tally[mb];
    case Region::workspace:
    case Region::ring_0:
    case Region::ring_1:
    case Region::ring_2:
    case Region::ring_3:
      break;
  }
  throw std::logic_error("a workspace is made for each pass");
}

}  // namespace strata
