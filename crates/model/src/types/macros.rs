//! Macros for the two patterns of most types here: open enumerations, and setters of optional members.

/// Defines an enumeration of strings that preserves unknown strings.
macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
            /// A string that the specification does not define, unchanged.
            Other(Box<str>),
        }

        impl $name {
            /// Returns the string used in messages.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::types::lenient::text(deserializer, |text| Self::from(text))
            }
        }
    };
}

/// Defines setters that take and return the value: `some` for `Option` fields, `set` for the others.
macro_rules! setters {
    ($name:ty { $($kind:ident $method:ident($field:ident: $type:ty);)+ }) => {
        impl $name {
            $(setters!(@one $kind $method $field $type);)+
        }
    };
    (@one some $method:ident $field:ident $type:ty) => {
        #[doc = concat!("The same with `", stringify!($field), "`.")]
        #[must_use]
        pub fn $method(mut self, $field: impl Into<$type>) -> Self {
            self.$field = Some($field.into());
            self
        }
    };
    (@one set $method:ident $field:ident $type:ty) => {
        #[doc = concat!("The same with `", stringify!($field), "`.")]
        #[must_use]
        pub fn $method(mut self, $field: impl Into<$type>) -> Self {
            self.$field = $field.into();
            self
        }
    };
}
