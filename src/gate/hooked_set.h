// hooked_set.h: a sorted set of records that live elsewhere, linked by hooks inside them.
//
// It allocates nothing, and takes out a record that is at hand without a search. Who changes what a
// record is sorted by takes it out before. Pure. Thread-safety: none. An insertion costs O(log n).
#pragma once
#include <boost/intrusive/set.hpp>

namespace hg::gate {

// Where a record hangs in a sorted set; whoever inserts it takes it out before the record dies.
using SetHook = boost::intrusive::set_member_hook<
    boost::intrusive::link_mode<boost::intrusive::normal_link>>;

// A template, because calls, owners, ended ids and shims are sorted so.
template <typename T, SetHook T::* Hook, typename Order>
using HookedSet = boost::intrusive::set<T, boost::intrusive::member_hook<T, SetHook, Hook>,
                                        boost::intrusive::compare<Order>,
                                        boost::intrusive::constant_time_size<false>>;

// Inserts `record`, at once if it belongs at the end: what comes later mostly does.
template <typename Set, typename T>
void insert_late(Set& set, T& record) {
  set.insert(set.cend(), record);
}

}  // namespace hg::gate
