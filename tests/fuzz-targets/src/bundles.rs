//! Bundles: manifests, archives and signatures.

use std::time::{Duration, SystemTime};

use hospes_bundle::archive::{MAX_FILES, MAX_UNPACKED_BYTES};
use hospes_bundle::pack::file_name;
use hospes_bundle::{Bundle, BundleManifest, BundlePlaces, BundlePlatform, SignatureVerdict, TrustRoots};

/// A manifest is read, or refused with a text that can be printed. What is read strictly is read loosely, too.
pub(crate) fn manifest(data: &[u8]) {
    let manifest = match BundleManifest::decode(data) {
        Ok(manifest) => {
            assert_eq!(BundleManifest::decode_loose(data).as_ref(), Ok(&manifest));
            manifest
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
            let Ok(manifest) = BundleManifest::decode_loose(data) else { return };
            manifest
        }
    };
    let name = file_name(&manifest);
    assert!(name.ends_with(".mcpb") && !name.contains(['/', '\\', ':']) && name.len() <= 210, "{name}");
    for platform in BundlePlatform::ALL {
        let preview = manifest.preview(platform);
        // Each index and name of a secret exists.
        assert!(preview.secrets.iter().all(|secret| manifest.user_option(&secret.key).is_some()));
        let places = BundlePlaces::in_home("/bundle", "/home/ada", platform);
        let values = manifest.default_values(&places, platform);
        if let Ok(launch) = manifest.launch(&places, platform, &values) {
            let count = launch.args.len();
            assert!(launch.without_unset().args.len() <= count);
        }
    }
}

/// An archive is unpacked whole, or nothing of it is left. No limit is exceeded, and no file is outside.
pub(crate) fn archive(data: &[u8]) {
    let Ok(bundle) = Bundle::from_bytes(data.to_vec()) else { return };
    assert!(bundle.entries().len() as u64 <= MAX_FILES && bundle.unpacked_size() <= MAX_UNPACKED_BYTES);
    // What is larger is for the tests of limits.
    if bundle.unpacked_size() > 1 << 20 {
        return;
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    let unpacked = bundle.unpack(&home.path().join("out"));
    let left = std::fs::read_dir(home.path()).expect("the folder is there").count();
    assert_eq!(left, usize::from(unpacked.is_ok()));
    for entry in bundle.entries().iter().filter(|entry| !entry.is_folder) {
        match bundle.read_file(&entry.name, 1 << 20) {
            Ok(content) => assert_eq!(content.len() as u64, entry.size),
            Err(_) => assert!(unpacked.is_err(), "{:?} is damaged, and was unpacked", entry.name),
        }
    }
    if let Ok(review) = hospes_bundle::review_bundle(&bundle) {
        assert!(unpacked.is_ok() || review.has_errors());
    }
}

/// A signature is judged. It is never one of another content.
pub(crate) fn signature(data: &[u8]) {
    const CONTENT: &[u8] = include_bytes!("../../../fuzz/corpus/bundle_archive/demo");
    const OTHER: &[u8] = include_bytes!("../../../fuzz/corpus/bundle_archive/other");

    let judge = |content: &[u8]| {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes();
        let file = [content, b"MCPB_SIG_V1", &length, data, b"MCPB_SIG_END"].concat();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let bundle = Bundle::from_bytes(file).ok()?;
        Some(bundle.signature(&TrustRoots::none(), now).expect("bytes in memory can be read"))
    };
    let is_accepted = |verdict: &Option<SignatureVerdict>| {
        matches!(verdict, Some(SignatureVerdict::SelfSigned { .. } | SignatureVerdict::Signed { .. }))
    };
    assert!(!is_accepted(&judge(OTHER)));
    judge(CONTENT);
}
