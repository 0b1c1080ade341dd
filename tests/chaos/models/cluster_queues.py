# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of Kueue's quota: ClusterQueues of one cohort that borrow from each other.

It chooses as Kueue with ``queueingStrategy: StrictFIFO``, ``reclaimWithinCohort: Any`` and
``withinClusterQueue: LowerPriority``. Places in kubernetes-sigs/kueue: the order of the heads is that
of ``makeClassicalIterator`` (``pkg/scheduler/scheduler.go``) or, with fair sharing, of
``runTournament`` (``fair_sharing_iterator.go``) by ``dominantResourceShare``
(``pkg/cache/scheduler/fair_sharing.go``). Workloads to preempt are those of
``collectCandidatesForHierarchicalReclaim`` and ``collectSameQueueCandidates``
(``preemption/classical``), in the order of ``CandidatesOrdering`` (``preemption/common/ordering.go``),
less those that ``fillBackWorkloads`` (``preemption/preemption.go``) spares. There is one resource, the
device, and one flavor. The preemption of fair sharing is not modeled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.composable.infra.tests.chaos.workload import Job


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """``nominal``: devices of its own. ``limit``: how many more it may borrow, None for any number."""

    nominal: int
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Cohort:
    """The ClusterQueues by name. With ``fair``, the queue with the smallest share is next."""

    queues: dict[str, ClusterQueue]
    fair: bool = False

    def used(self, name: str, reserved: Sequence[Job]) -> int:
        """Return the devices of a queue's Jobs that have quota."""
        return sum(job.size for job in reserved if job.queue == name)

    def fits(self, job: Job, reserved: Sequence[Job]) -> bool:
        """Return whether there is quota for a Job beside those that have it."""
        queue = self.queues[job.queue]
        most = None if queue.limit is None else queue.nominal + queue.limit
        wanted = self.used(job.queue, reserved) + job.size
        total = sum(each.nominal for each in self.queues.values())
        return (most is None or wanted <= most) and sum(each.size for each in reserved) + job.size <= total

    def borrows(self, name: str, reserved: Sequence[Job], more: int = 0) -> int:
        """Return how many devices a queue has beyond its own, with ``more`` devices."""
        return max(0, self.used(name, reserved) + more - self.queues[name].nominal)

    def order(self, waiting: Sequence[Job], reserved: Sequence[Job]) -> list[Job]:
        """Return the first waiting Job of each queue, the one to consider first in front."""
        by_queue: dict[str, Job] = {}
        for job in sorted(waiting, key=lambda job: (-job.priority, waiting.index(job))):
            by_queue.setdefault(job.queue, job)
        return sorted(by_queue.values(), key=lambda job: (
            self.borrows(job.queue, reserved, job.size) if self.fair
            else bool(self.borrows(job.queue, reserved, job.size)), -job.priority, waiting.index(job)))

    def victims(self, job: Job, reserved: Sequence[Job]) -> list[Job]:
        """Return the Jobs to preempt so that a Job gets quota, none if it cannot."""
        within = not self.borrows(job.queue, reserved, job.size)
        left, found = [*reserved], list[Job]()
        for each in sorted(reserved, key=lambda other: (other.queue == job.queue, other.priority, -other.reserved_at)):
            if self.fits(job, left):
                break
            lower = each.queue == job.queue and each.priority < job.priority
            if lower or (within and each.queue != job.queue and self.borrows(each.queue, left)):
                left.remove(each)
                found.append(each)
        if not self.fits(job, left):
            return []
        for each in found[::-1]:
            if self.fits(job, [*left, each]):
                left.append(each)
                found.remove(each)
        return found
