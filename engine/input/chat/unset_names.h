// Which names of a template are undefined until it sets them. Jinja decides that when it compiles a template,
// for each scope as a whole. A name that a scope sets before it reads it is the scope's own from the
// beginning. This holds also for macros and loops of the scope that stand before the setting. A plain
// function.
#pragma once

#include "engine/input/chat/syntax.h"

namespace strata::chat {

/// Fills in ScopedBody::unset of a template's body and of all within.
void find_unset_names(ScopedBody& body);

}  // namespace strata::chat
