"""The threads that run parallel loops, as LLVM IR: compiled once in each process, kept until it ends.

A loop is published in global variables, and opened by making `generation` odd; the caller works on it as any
worker does, closes it by making `generation` even again, and waits until no worker is `active`. A worker that
finds the generation odd counts itself as active and looks again: if it has not changed, the caller is
bound to wait for it, so everything published holds. A worker that finds nothing to do spins for a while,
then sleeps; it says so in `sleepers` before it looks at the generation for the last time, and the caller looks
at `sleepers` after it changed the generation, so one of them sees the other.

The iterations are cut into pieces, and each thread begins with pieces of its own, the same in each loop of that
length, before it takes what others have left. Pieces after the first failure are skipped, those before it are not:
the failure that the caller is told is that of the first iteration that fails, whatever the number of threads.

A loop started while another one runs, from inside it or by another thread of the program, is run by its caller.
"""

from __future__ import annotations

import platform
import signal
import sys
from typing import Final

from tscript.codegen.threads import MOST_THREADS

RUN_SYMBOL: Final = "tscript_parallel_run"
"""`i32 run(task, context, count, limit)`: `task(context, begin, end)` for all of 0 to `count`, by at most `limit`
threads (if that is not 0). It returns the status, not 0, of the first piece that failed."""
RESET_SYMBOL: Final = "tscript_parallel_reset"
"""`void reset()`: forget all threads, in a process that was forked and so has none of them."""
NUMBER_SYMBOL: Final = "tscript_parallel_number"
"""An i64 that the process provides: how many threads there are to be, the caller among them."""

_PIECES: Final = 4  # for each thread, so that one that was interrupted does not keep all others waiting
_SPINS: Final = 2000  # about 100 µs: a pause takes some 140 cycles
_STACK: Final = 8 << 20
_REQUIRED: Final = (
    "pthread_create", "pthread_detach", "pthread_attr_init", "pthread_attr_destroy", "pthread_attr_setstacksize",
    "pthread_sigmask", "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_init",
    "pthread_cond_wait", "pthread_cond_broadcast", "sched_yield", "sigfillset", "sigdelset",
)  # fmt: skip
# What says that the program itself went wrong has to reach the thread in which it did.
_OWN_SIGNALS: Final = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")


def required_symbols() -> tuple[str, ...]:
    """The C functions that a pool of threads calls."""
    return _REQUIRED


def serial_text() -> str:
    """A pool for systems without POSIX threads: the caller does everything."""
    return f"""
define i32 @{RUN_SYMBOL}(ptr %task, ptr %context, i64 %count, i64 %limit) nounwind {{
  %status = call i32 %task(ptr %context, i64 0, i64 %count)
  ret i32 %status
}}
define void @{RESET_SYMBOL}() nounwind {{
  ret void
}}
"""


def pool_text() -> str:
    """The pool for this kind of machine and system."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "i686"):
        pause, more = "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"
    elif machine in ("aarch64", "arm64"):
        pause, more = 'call void asm sideeffect "isb", ""()', ""
    else:
        pause, more = 'call void asm sideeffect "", ""()', ""
    numbers = [int(getattr(signal, name)) for name in _OWN_SIGNALS if hasattr(signal, name)]
    own = "\n".join(f"  %d{n} = call i32 @sigdelset(ptr %blocked, i32 {n})" for n in numbers)
    text = _STATE + _WORK + _RUN + _WORKER + _SPAWN + _RESET
    text += _SPREAD if sys.platform == "linux" and sys.byteorder == "little" else _NO_SPREAD
    for name, value in {
        "{run}": RUN_SYMBOL,
        "{reset}": RESET_SYMBOL,
        "{number}": NUMBER_SYMBOL,
        "{most}": str(MOST_THREADS),
        "{pieces}": str(_PIECES),
        "{spins}": str(_SPINS),
        "{stack}": str(_STACK),
        "{pause}": pause,
        "{own signals}": own,
        "{set mask}": "3" if sys.platform == "darwin" else "2",
    }.items():
        text = text.replace(name, value)
    return text + more + "\n"


# What is published, and then each variable that threads fight over in a cache line of its own. A mutex and a
# condition take less than 128 bytes wherever there are any.
_STATE: Final = """
@{number} = external global i64
@task = internal global ptr null, align 64
@context = internal global ptr null
@count = internal global i64 0
@chunk = internal global i64 0
@pieces = internal global i64 0
@share = internal global i64 0
@threads = internal global i64 0
@failure = internal global i64 -1, align 128
@generation = internal global i64 0, align 128
@active = internal global i64 0, align 128
@sleepers = internal global i64 0, align 128
@started = internal global i64 0
@busy = internal global i32 0, align 128
@taken = internal global [{most} x [16 x i64]] zeroinitializer, align 128
@mutex = internal global [128 x i8] zeroinitializer, align 128
@condition = internal global [128 x i8] zeroinitializer, align 128

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""

# One thread's part: its own pieces, then, from the next thread on round to itself, those that others have left.
_WORK: Final = """
define internal void @work(i64 %me) nounwind {
entry:
  %task = load ptr, ptr @task
  %context = load ptr, ptr @context
  %count = load i64, ptr @count
  %chunk = load i64, ptr @chunk
  %pieces = load i64, ptr @pieces
  %share = load i64, ptr @share
  %threads = load i64, ptr @threads
  br label %visit
visit:
  %offset = phi i64 [ 0, %entry ], [ %further, %leave ]
  %sum = add i64 %me, %offset
  %over = icmp uge i64 %sum, %threads
  %less = sub i64 %sum, %threads
  %owner = select i1 %over, i64 %less, i64 %sum
  %first = mul i64 %owner, %share
  %last = add i64 %first, %share
  %stop = call i64 @llvm.umin.i64(i64 %last, i64 %pieces)
  %slot = getelementptr [16 x i64], ptr @taken, i64 %owner
  br label %look
look:
  %seen = load atomic i64, ptr %slot monotonic, align 128
  %seen.piece = add i64 %first, %seen
  %maybe = icmp ult i64 %seen.piece, %stop
  br i1 %maybe, label %take, label %leave
take:
  %mine = atomicrmw add ptr %slot, i64 1 monotonic
  %piece = add i64 %first, %mine
  %got = icmp ult i64 %piece, %stop
  br i1 %got, label %check, label %leave
check:
  %failed = load atomic i64, ptr @failure monotonic, align 128
  %failed.piece = lshr i64 %failed, 32
  %wanted = icmp ult i64 %piece, %failed.piece
  br i1 %wanted, label %run, label %look
run:
  %begin = mul i64 %piece, %chunk
  %far = add i64 %begin, %chunk
  %is.last = icmp ugt i64 %far, %count
  %end = select i1 %is.last, i64 %count, i64 %far
  %status = call i32 %task(ptr %context, i64 %begin, i64 %end)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %look, label %fail
fail:
  %high = shl i64 %piece, 32
  %low = zext i32 %status to i64
  %word = or i64 %high, %low
  %before = atomicrmw umin ptr @failure, i64 %word monotonic
  br label %look
leave:
  %further = add i64 %offset, 1
  %more = icmp ult i64 %further, %threads
  br i1 %more, label %visit, label %done
done:
  ret void
}
"""

_RUN: Final = """
define i32 @{run}(ptr %task, ptr %context, i64 %count, i64 %limit) nounwind {
entry:
  %number = load atomic i64, ptr @{number} monotonic, align 8
  %any = icmp eq i64 %limit, 0
  %limited = call i64 @llvm.umin.i64(i64 %number, i64 %limit)
  %allowed = select i1 %any, i64 %number, i64 %limited
  %wanted = call i64 @llvm.umin.i64(i64 %allowed, i64 %count)
  %alone = icmp ule i64 %wanted, 1
  br i1 %alone, label %serial, label %lock
lock:
  %was = atomicrmw xchg ptr @busy, i32 1 acquire
  %free = icmp eq i32 %was, 0
  br i1 %free, label %begin, label %serial
serial:
  %own = call i32 %task(ptr %context, i64 0, i64 %count)
  ret i32 %own
begin:
  %helpers = sub i64 %wanted, 1
  %started = load i64, ptr @started
  %enough = icmp uge i64 %started, %helpers
  br i1 %enough, label %publish, label %create
create:
  call void @spawn(i64 %helpers)
  %now = load i64, ptr @started
  %there = add i64 %now, 1
  br label %publish
publish:
  %most = phi i64 [ %wanted, %begin ], [ %there, %create ]
  %threads = call i64 @llvm.umin.i64(i64 %most, i64 %wanted)
  %parts = mul i64 %threads, {pieces}
  %part = udiv i64 %count, %parts
  %chunk = call i64 @llvm.umax.i64(i64 %part, i64 1)
  %less = sub i64 %count, 1
  %whole = udiv i64 %less, %chunk
  %pieces = add i64 %whole, 1
  %each = udiv i64 %whole, %threads
  %share = add i64 %each, 1
  store ptr %task, ptr @task
  store ptr %context, ptr @context
  store i64 %count, ptr @count
  store i64 %chunk, ptr @chunk
  store i64 %pieces, ptr @pieces
  store i64 %share, ptr @share
  store i64 %threads, ptr @threads
  store atomic i64 -1, ptr @failure monotonic, align 128
  br label %clear
clear:
  %i = phi i64 [ 0, %publish ], [ %next, %clear ]
  %slot = getelementptr [16 x i64], ptr @taken, i64 %i
  store atomic i64 0, ptr %slot monotonic, align 128
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %threads
  br i1 %again, label %clear, label %open
open:
  %closed = atomicrmw add ptr @generation, i64 1 seq_cst
  %sleeping = load atomic i64, ptr @sleepers seq_cst, align 128
  %awake = icmp eq i64 %sleeping, 0
  br i1 %awake, label %help, label %wake
wake:
  %w0 = call i32 @pthread_mutex_lock(ptr @mutex)
  %w1 = call i32 @pthread_cond_broadcast(ptr @condition)
  %w2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %help
help:
  call void @work(i64 0)
  %opened = atomicrmw add ptr @generation, i64 1 seq_cst
  br label %wait
wait:
  %turns = phi i64 [ 0, %help ], [ %turns.next, %paused ]
  %active = load atomic i64, ptr @active seq_cst, align 128
  %finished = icmp eq i64 %active, 0
  br i1 %finished, label %end, label %longer
longer:
  %turns.next = add i64 %turns, 1
  %patient = icmp ult i64 %turns, {spins}
  br i1 %patient, label %pause, label %yield
pause:
  {pause}
  br label %paused
yield:
  %y = call i32 @sched_yield()
  br label %paused
paused:
  br label %wait
end:
  %failure = load atomic i64, ptr @failure monotonic, align 128
  store atomic i32 0, ptr @busy release, align 128
  %none = icmp eq i64 %failure, -1
  %word = trunc i64 %failure to i32
  %status = select i1 %none, i32 0, i32 %word
  ret i32 %status
}
"""

_WORKER: Final = """
define internal ptr @worker(ptr %argument) nounwind {
entry:
  %me = ptrtoint ptr %argument to i64
  call void @spread(i64 %me)
  br label %look
look:
  %done = phi i64 [ 0, %entry ], [ %done, %pause ], [ %g, %left ], [ %done, %slept ]
  %turns = phi i64 [ 0, %entry ], [ %turns.next, %pause ], [ 0, %left ], [ 0, %slept ]
  %g = load atomic i64, ptr @generation acquire, align 128
  %bit = and i64 %g, 1
  %is.open = icmp ne i64 %bit, 0
  %is.new = icmp ne i64 %g, %done
  %is.work = and i1 %is.open, %is.new
  br i1 %is.work, label %join, label %spin
join:
  %a = atomicrmw add ptr @active, i64 1 seq_cst
  %again = load atomic i64, ptr @generation seq_cst, align 128
  %still = icmp eq i64 %again, %g
  br i1 %still, label %joined, label %left
joined:
  %threads = load i64, ptr @threads
  %is.wanted = icmp ult i64 %me, %threads
  br i1 %is.wanted, label %help, label %left
help:
  call void @work(i64 %me)
  br label %left
left:
  %b = atomicrmw sub ptr @active, i64 1 seq_cst
  br label %look
spin:
  %turns.next = add i64 %turns, 1
  %patient = icmp ult i64 %turns, {spins}
  br i1 %patient, label %pause, label %tired
pause:
  {pause}
  br label %look
tired:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %s = atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %check
check:
  %h = load atomic i64, ptr @generation seq_cst, align 128
  %h.bit = and i64 %h, 1
  %h.closed = icmp eq i64 %h.bit, 0
  %h.old = icmp eq i64 %h, %done
  %idle = or i1 %h.closed, %h.old
  br i1 %idle, label %sleep, label %slept
sleep:
  %w = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %check
slept:
  %e = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %look
}
"""

# Signals to the program are for its own threads; a new thread has the mask of the one that makes it.
_SPAWN: Final = """
define internal void @spawn(i64 %wanted) nounwind noinline cold {
entry:
  %blocked = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %attributes = alloca [128 x i8], align 16
  %id = alloca i64, align 16
  call void @note_home()
  %f = call i32 @sigfillset(ptr %blocked)
{own signals}
  %m = call i32 @pthread_sigmask(i32 {set mask}, ptr %blocked, ptr %before)
  %a = call i32 @pthread_attr_init(ptr %attributes)
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {stack})
  br label %next
next:
  %there = load i64, ptr @started
  %some = icmp ult i64 %there, %wanted
  br i1 %some, label %make, label %done
make:
  %number = add i64 %there, 1
  %argument = inttoptr i64 %number to ptr
  %error = call i32 @pthread_create(ptr %id, ptr %attributes, ptr @worker, ptr %argument)
  %ok = icmp eq i32 %error, 0
  br i1 %ok, label %made, label %done
made:
  %handle = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %handle)
  store i64 %number, ptr @started
  br label %next
done:
  %c = call i32 @pthread_attr_destroy(ptr %attributes)
  %r = call i32 @pthread_sigmask(i32 {set mask}, ptr %before, ptr null)
  ret void
}
"""

# A new thread starts on the core of the one that made it, and on a busy machine the system may leave it there, where
# the two take turns. So each goes to a core of its own at first: the one after those of the threads before it. It may
# be moved from there, since other programs count their cores in the same way.
_SPREAD: Final = """
@home = internal global i32 0
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @note_home() nounwind {
  %cpu = call i32 @sched_getcpu()
  %known = icmp sge i32 %cpu, 0
  %home = select i1 %known, i32 %cpu, i32 0
  store i32 %home, ptr @home
  ret void
}

define internal void @spread(i64 %me) nounwind {
entry:
  %all = alloca i1024, align 16
  %one = alloca i1024, align 16
  store i1024 0, ptr %all
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %all)
  %fine = icmp sge i32 %got, 0
  %mask = load i1024, ptr %all
  %some = icmp ne i1024 %mask, 0
  %go = and i1 %fine, %some
  br i1 %go, label %next, label %done
next:
  %from = load i32, ptr @home
  br label %step
step:
  %cpu = phi i32 [ %from, %next ], [ %after, %step ], [ %after, %allowed ]
  %left = phi i64 [ %me, %next ], [ %left, %step ], [ %less, %allowed ]
  %up = add i32 %cpu, 1
  %after = and i32 %up, 1023
  %wide = zext i32 %after to i1024
  %shifted = lshr i1024 %mask, %wide
  %bit = trunc i1024 %shifted to i1
  br i1 %bit, label %allowed, label %step
allowed:
  %less = sub i64 %left, 1
  %there = icmp eq i64 %less, 0
  br i1 %there, label %move, label %step
move:
  %only = shl i1024 1, %wide
  store i1024 %only, ptr %one
  %s = call i32 @sched_setaffinity(i32 0, i64 128, ptr %one)
  %t = call i32 @sched_setaffinity(i32 0, i64 128, ptr %all)
  br label %done
done:
  ret void
}
"""
_NO_SPREAD: Final = """
define internal void @note_home() nounwind {
  ret void
}
define internal void @spread(i64 %me) nounwind {
  ret void
}
"""

_RESET: Final = """
define void @{reset}() nounwind {
  store atomic i64 0, ptr @generation seq_cst, align 128
  store atomic i64 0, ptr @active seq_cst, align 128
  store atomic i64 0, ptr @sleepers seq_cst, align 128
  store i64 0, ptr @started
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr @condition, ptr null)
  store atomic i32 0, ptr @busy seq_cst, align 128
  ret void
}
"""
