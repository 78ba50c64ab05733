//! How long committed offsets are kept: `offsets.retention.minutes` (KIP-211).
//!
//! ```text
//! classic group, empty              counted from when its last member left
//! classic group, never had members  counted from each offset's commit
//! classic group, Stable, consumers  the same, except for offsets of subscribed topics
//! classic group, other members      offsets do not expire
//! KIP-848's group                   counted from each commit, except for subscribed topics
//! ```
//! A group is dropped once it has neither offsets nor members.

use std::time::Instant;

use thalweg_protocol::Str;

use crate::Core;
use crate::GroupView;
use crate::groups::RetainedSince;
use crate::offsets::CommittedOffset;

impl Core {
    pub(crate) fn retain_offsets(&mut self, now: Instant, now_ms: i64) {
        let groups: Vec<Str> = self.offsets.groups().cloned().collect();
        for group in groups {
            self.expire_offsets(&group, now_ms);
        }
        let joined = self.joined_groups();
        let is_left = |group: &Str| self.offsets.has_group(group) || joined.contains(group);
        let views = self.groups.table.iter();
        let gone = views.filter(|(group, view)| view.is_empty() && !is_left(group));
        let gone: Vec<Str> = gone.map(|(group, _)| group.clone()).collect();
        for group in gone {
            self.drop_group(&group, now);
        }
    }

    fn expire_offsets(&mut self, group: &Str, now_ms: i64) {
        let view = self.groups.table.get(group);
        let since = view.map_or(Some(RetainedSince::Commit), GroupView::retained_since);
        let Some(since) = since else {
            return;
        };
        let emptied_ms = match since {
            RetainedSince::Commit => None,
            RetainedSince::Emptied => self.groups.table.emptied_ms(group),
        };
        let retention_ms = self.options.offsets_retention_ms;
        let is_over = |topic: &Str, offset: &CommittedOffset| {
            if view.is_some_and(|view| view.is_subscribed(topic)) {
                return false;
            }
            let since_ms = emptied_ms.unwrap_or(offset.committed_ms);
            let ends_ms = offset.expires_ms;
            now_ms >= ends_ms.unwrap_or_else(|| since_ms.saturating_add(retention_ms))
        };
        self.offsets.expire(group, is_over);
    }
}
