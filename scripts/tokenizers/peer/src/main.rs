//! Times the Rust crates `tokenizers` and `bpe-openai` on a corpus, on one thread, by the CPU
//! time of the process, since the machine may be shared.
//!
//!     peer TOKENIZER.JSON CORPUS.BIN        cold and warm seconds of `tokenizers`
//!     peer o200k_base CORPUS.BIN            cold and warm seconds of `bpe-openai`
//!
//! The corpus is a sequence of documents, each a length in four bytes, little-endian, and its
//! UTF-8 text. The output is "cold_s warm_s tokens bytes".

/// CPU seconds of this process.
fn cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn corpus(path: &str) -> Vec<String> {
    let data = std::fs::read(path).expect("corpus");
    let (mut docs, mut i) = (Vec::new(), 0);
    while i < data.len() {
        let n = u32::from_le_bytes(data[i..i + 4].try_into().unwrap()) as usize;
        docs.push(String::from_utf8_lossy(&data[i + 4..i + 4 + n]).into_owned());
        i += 4 + n;
    }
    docs
}

fn measure(docs: &[String], encode: &dyn Fn(&str) -> usize) {
    let run = || {
        let start = cpu();
        let tokens: usize = docs.iter().map(|d| encode(d)).sum();
        (cpu() - start, tokens)
    };
    let (cold, tokens) = run();
    let mut warm: Vec<f64> = (0..5).map(|_| run().0).collect();
    warm.sort_by(f64::total_cmp);
    let bytes: usize = docs.iter().map(String::len).sum();
    println!("{cold:.4} {:.4} {tokens} {bytes}", warm[2]);
}

fn main() {
    std::env::set_var("TOKENIZERS_PARALLELISM", "false");
    let args: Vec<String> = std::env::args().collect();
    let docs = corpus(&args[2]);
    if args[1] == "o200k_base" {
        let t = bpe_openai::o200k_base();
        measure(&docs, &|d| t.encode(d).len());
        return;
    }
    let t = tokenizers::Tokenizer::from_file(&args[1]).expect("tokenizer.json");
    measure(&docs, &|d| t.encode_fast(d, false).expect("encode").len());
}
