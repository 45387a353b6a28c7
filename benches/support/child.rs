//! A process measured from outside.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// What a process took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) wall: Duration,
    /// Processor time, user and system, up to the last sample.
    pub(crate) cpu: Duration,
    /// Most resident memory, mapped pages of index files included, as the kernel counts it.
    pub(crate) peak_resident: Option<u64>,
    /// Most resident memory without mapped files, among samples.
    pub(crate) peak_anonymous: Option<u64>,
}

/// Runs a command to its end, its output thrown away; fails where the command does.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Measured> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begun = Instant::now();
    let child = command.spawn().with_context(|| format!("{command:?}"))?;
    let process_at = format!("/proc/{}", child.id());
    let sampler = thread::spawn(move || {
        let (mut resident, mut anonymous, mut cpu) = (None, None, Duration::ZERO);
        // The file goes with the process, its lines already when it has ended
        while let Ok(status) = fs::read_to_string(format!("{process_at}/status")) {
            let Some(now) = kilobytes(&status, "VmHWM:") else { break };
            resident = resident.max(Some(now));
            anonymous = anonymous.max(kilobytes(&status, "RssAnon:"));
            let stat = fs::read_to_string(format!("{process_at}/stat")).unwrap_or_default();
            cpu = cpu.max(cpu_time(&stat).unwrap_or_default());
            thread::sleep(SAMPLE_EVERY);
        }
        (resident, anonymous, cpu)
    });
    let output = child.wait_with_output()?;
    let wall = begun.elapsed();
    let (peak_resident, peak_anonymous, cpu) = sampler.join().unwrap_or((None, None, Duration::ZERO));
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(Measured { wall, cpu, peak_resident, peak_anonymous })
}

/// A value of `/proc/PID/status`, in bytes.
pub(crate) fn kilobytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// User and system time of `/proc/PID/stat`: the 14th and 15th field in hundredths of a second. The second field, a
/// name in parentheses, may hold spaces.
pub(crate) fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}
