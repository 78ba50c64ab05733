//! The words of ACLs, with their numbers in Kafka's protocol.

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident { $($word:ident = $id:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($word),* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$word),*];

            /// Returns the number in Kafka's protocol.
            pub fn wire_id(self) -> i8 {
                match self { $(Self::$word => $id),* }
            }

            pub fn from_wire_id(id: i8) -> Option<Self> {
                Self::ALL.iter().copied().find(|each| each.wire_id() == id)
            }

            /// Returns Kafka's name, in upper case.
            pub fn name(self) -> &'static str {
                match self { $(Self::$word => $text),* }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|each| each.name() == name)
            }
        }
    };
}

kind! {
    ResourceType {
        Topic = 2, "TOPIC";
        Group = 3, "GROUP";
        Cluster = 4, "CLUSTER";
        TransactionalId = 5, "TRANSACTIONAL_ID";
        DelegationToken = 6, "DELEGATION_TOKEN";
        User = 7, "USER";
    }
}

kind! {
    PatternType {
        Literal = 3, "LITERAL";
        Prefixed = 4, "PREFIXED";
    }
}

kind! {
    Operation {
        All = 2, "ALL";
        Read = 3, "READ";
        Write = 4, "WRITE";
        Create = 5, "CREATE";
        Delete = 6, "DELETE";
        Alter = 7, "ALTER";
        Describe = 8, "DESCRIBE";
        ClusterAction = 9, "CLUSTER_ACTION";
        DescribeConfigs = 10, "DESCRIBE_CONFIGS";
        AlterConfigs = 11, "ALTER_CONFIGS";
        IdempotentWrite = 12, "IDEMPOTENT_WRITE";
        CreateTokens = 13, "CREATE_TOKENS";
        DescribeTokens = 14, "DESCRIBE_TOKENS";
        TwoPhaseCommit = 15, "TWO_PHASE_COMMIT";
    }
}

kind! {
    Permission {
        Deny = 2, "DENY";
        Allow = 3, "ALLOW";
    }
}

impl Operation {
    /// Whether an ALLOW of this operation allows the other one.
    pub(super) fn allows(self, asked: Self) -> bool {
        let implied = match asked {
            Self::Describe => {
                matches!(self, Self::Read | Self::Write | Self::Delete | Self::Alter)
            }
            Self::DescribeConfigs => self == Self::AlterConfigs,
            _ => false,
        };
        self.covers(asked) || implied
    }

    /// Whether a rule for this operation is about the other one, without implications.
    pub(super) fn covers(self, asked: Self) -> bool {
        self == asked || self == Self::All
    }
}
