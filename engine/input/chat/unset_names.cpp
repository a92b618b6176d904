#include "engine/input/chat/unset_names.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace strata::chat {
namespace {

// The names that an expression reads.

using UseName = std::function<void(const std::string&)>;

void for_each_name(const Expression& expression, const UseName& use);
void for_each_name(const CallArguments& arguments, const UseName& use);

/// Uses the names of one kind of expression.
class NameReader {
 public:
  explicit NameReader(const UseName& use) : use_(use) {}

  void operator()(const Literal&) const {}
  void operator()(const Name& name) const { use_(name.name); }
  void operator()(const ListLiteral& literal) const {
    for (const ExpressionPointer& item : literal.items) read(item);
  }
  void operator()(const DictLiteral& literal) const {
    for (const auto& [key, value] : literal.entries) {
      read(key);
      read(value);
    }
  }
  void operator()(const AttributeOf& attribute) const { read(attribute.object); }
  void operator()(const ItemOf& item) const {
    read(item.object);
    read(item.key);
  }
  void operator()(const SliceOf& slice) const {
    for (const ExpressionPointer* part : {&slice.object, &slice.begin, &slice.end, &slice.step}) read(*part);
  }
  void operator()(const Call& call) const {
    read(call.callee);
    for_each_name(call.arguments, use_);
  }
  void operator()(const Filtered& filtered) const {
    read(filtered.value);
    for_each_name(filtered.filter.arguments, use_);
  }
  void operator()(const Tested& tested) const {
    read(tested.value);
    for_each_name(tested.test.arguments, use_);
  }
  void operator()(const Signed& expression) const { read(expression.operand); }
  void operator()(const Calculation& calculation) const {
    read(calculation.left);
    read(calculation.right);
  }
  void operator()(const Remainder& remainder) const {
    read(remainder.left);
    read(remainder.right);
  }
  void operator()(const Choice& choice) const {
    read(choice.left);
    read(choice.right);
  }
  void operator()(const Comparison& comparison) const {
    read(comparison.first);
    for (const auto& [relation, expression] : comparison.rest) read(expression);
  }
  void operator()(const Concatenation& concatenation) const {
    for (const ExpressionPointer& part : concatenation.parts) read(part);
  }
  void operator()(const Conditional& conditional) const {
    for (const ExpressionPointer* part : {&conditional.condition, &conditional.value, &conditional.otherwise})
      read(*part);
  }

 private:
  void read(const ExpressionPointer& expression) const {
    if (expression) for_each_name(*expression, use_);
  }

  const UseName& use_;
};

void for_each_name(const Expression& expression, const UseName& use) {
  std::visit(NameReader(use), expression.node);
}

void for_each_name(const CallArguments& arguments, const UseName& use) {
  for (const ExpressionPointer& each : arguments.positional) for_each_name(*each, use);
  for (const auto& [name, each] : arguments.named) for_each_name(*each, use);
  for (const ExpressionPointer* more : {&arguments.more_positional, &arguments.more_named})
    if (*more) for_each_name(**more, use);
}

/// What Jinja knows of the names in a scope, or in a branch of it beyond what stands before the branch.
struct Names {
  const Names* around = nullptr;              ///< the scope around; null in a branch
  const Names* before = nullptr;              ///< in a branch
  std::map<std::string, bool> is_unset = {};  ///< of names that are read or set here
  std::set<std::string> stored = {};

  bool is_here(const std::string& name) const {
    return is_unset.contains(name) || (before != nullptr && before->is_here(name));
  }
  bool is_stored(const std::string& name) const {
    return stored.contains(name) || (before != nullptr && before->is_stored(name));
  }
  bool is_around(const std::string& name) const {
    if (before != nullptr) return before->is_around(name);
    return around != nullptr && (around->is_here(name) || around->is_around(name));
  }

  void read(const std::string& name) {
    if (!is_here(name) && !is_around(name)) is_unset[name] = false;
  }
  void store(const std::string& name) {
    if (!is_here(name)) is_unset[name] = !is_around(name);
    if (!is_stored(name)) stored.insert(name);
  }
  void bind(const std::string& name) {
    is_unset[name] = false;
    stored.insert(name);
  }
};

class ScopeReader {
 public:
  explicit ScopeReader(Names& names) : names_(names) {}

  void read(const ExpressionPointer& expression) {
    if (expression) for_each_name(*expression, [this](const std::string& name) { names_.read(name); });
  }
  void read(const CallArguments& arguments) {
    for_each_name(arguments, [this](const std::string& name) { names_.read(name); });
  }

  void bind(const Target& target) {
    for_each_target(target, [this](const Name& name) { names_.bind(name.name); });
  }

  void read(const Body& body) {
    for (const Statement& statement : body)
      std::visit([this](const auto& node) { read_statement(node); }, statement.node);
  }

 private:
  void for_each_target(const Target& target, const std::function<void(const Name&)>& use) {
    if (const auto* name = std::get_if<Name>(&target.node)) use(*name);
    if (const auto* attribute = std::get_if<NamespaceTarget>(&target.node)) names_.read(attribute->name);
    if (const auto* several = std::get_if<TupleTarget>(&target.node))
      for (const Target& each : several->targets) for_each_target(each, use);
  }
  void store(const Target& target) {
    for_each_target(target, [this](const Name& name) { names_.store(name.name); });
  }

  void read_statement(const Text&) {}
  void read_statement(const Break&) {}
  void read_statement(const Continue&) {}
  void read_statement(const Generation&) {}
  void read_statement(const Output& output) { read(output.value); }
  void read_statement(const For& loop) { read(loop.items); }
  void read_statement(const Set& set) {
    read(set.value);
    store(set.target);
  }
  void read_statement(const SetBlock& set) { store(set.target); }
  void read_statement(const Macro& macro) { names_.store(macro.procedure.name); }
  void read_statement(const CallBlock& block) { read(block.call); }
  void read_statement(const FilterBlock& block) {
    for (const Application& filter : block.filters) read(filter.arguments);
  }
  void read_statement(const With& with) {
    for (const auto& [target, value] : with.values) read(value);
  }

  void read_statement(const If& statement) {
    std::vector<Names> parts(statement.branches.size() + 1, Names{.before = &names_});
    read(statement.branches[0].first);
    for (std::size_t i = 0; i < statement.branches.size(); ++i) {
      if (i > 0) ScopeReader(parts[i]).read(statement.branches[i].first);
      ScopeReader(parts[i]).read(statement.branches[i].second);
    }
    ScopeReader(parts.back()).read(statement.otherwise);
    for (const Names& part : parts) names_.is_unset.insert(part.is_unset.begin(), part.is_unset.end());
    for (const Names& part : parts) {
      // What a branch sets is looked for around the scope where another one is taken.
      for (const std::string& name : part.stored) names_.is_unset[name] = false;
      names_.stored.insert(part.stored.begin(), part.stored.end());
    }
  }

  Names& names_;
};

void find_in_scope(ScopedBody& body, Names& names);

/// Goes to the scopes within a body.
class ScopeFinder {
 public:
  explicit ScopeFinder(const Names& around) : around_(around) {}

  void find(Body& body) {
    for (Statement& statement : body) std::visit([this](auto& node) { find_in(node); }, statement.node);
  }

 private:
  void find_in(Text&) {}
  void find_in(Output&) {}
  void find_in(Set&) {}
  void find_in(Break&) {}
  void find_in(Continue&) {}
  void find_in(If& statement) {
    for (auto& [condition, body] : statement.branches) find(body);
    find(statement.otherwise);
  }
  void find_in(For& loop) {
    Names names{.around = &around_};
    names.bind("loop");
    ScopeReader(names).bind(loop.target);
    find_in_scope(loop.body, names);
    Names otherwise{.around = &around_};
    find_in_scope(loop.otherwise, otherwise);
  }
  void find_in(SetBlock& block) { find_inside(block.body); }
  void find_in(FilterBlock& block) { find_inside(block.body); }
  void find_in(Generation& block) { find_inside(block.body); }
  void find_in(Macro& macro) { find_in(macro.procedure); }
  void find_in(CallBlock& block) { find_in(block.caller); }
  void find_in(With& with) {
    Names names{.around = &around_};
    for (const auto& [target, value] : with.values) ScopeReader(names).bind(target);
    find_in_scope(with.body, names);
  }
  void find_in(Procedure& procedure) {
    Names names{.around = &around_};
    for (const Parameter& parameter : procedure.parameters) names.bind(parameter.name);
    for (const Parameter& parameter : procedure.parameters) ScopeReader(names).read(parameter.otherwise);
    for (const char* name : {"caller", "varargs", "kwargs"}) names.bind(name);
    find_in_scope(procedure.body, names);
  }
  void find_inside(ScopedBody& body) {
    Names names{.around = &around_};
    find_in_scope(body, names);
  }

  const Names& around_;
};

/// `names` has what the scope is given, parameters say.
void find_in_scope(ScopedBody& body, Names& names) {
  ScopeReader(names).read(body.statements);
  for (const auto& [name, is_unset] : names.is_unset)
    if (is_unset) body.unset.push_back(name);
  ScopeFinder(names).find(body.statements);
}

}  // namespace

void find_unset_names(ScopedBody& body) {
  Names names;
  find_in_scope(body, names);
}

}  // namespace strata::chat
